"""A fake PBS, Torque or LSF on this machine, for a test, and what tests ask of pools on it.

`fakes/README.md` says what the programs do. A server runs from `with FakeHere(folder, "openpbs") as batch` on; commands
find it by the variables in `batch.environment`, as they find a real one.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from limits import LIMIT_S
from waiting import until, until_files_blocking
from whole_files import write_whole

from grainlike import Cores, Executor, delayed

__all__ = [
    "BIN",
    "FakeHere",
    "Gate",
    "ask_often",
    "command",
    "ended",
    "in_a_line",
    "opened",
    "until_up",
    "where",
]

FAKES = Path(__file__).parent / "fakes"
BIN = FAKES / "bin"
END_S = 10.0
CLEAN_S = 0.6
"""How long jobs of a gate take to clean up: none does in less time than its block needs to fall apart."""

SITE: dict[str, Any] = {
    "server": "pbs1",
    "nodes": {f"n{number}": {"cores": 4, "memory_mb": 4000, "gpus": 2} for number in range(1, 5)},
    "queues": {"work": {}, "minute": {"walltime_s": 60}, "closed": {"open": False}},
    "default_queue": "work",
    "history": True,
    "history_s": 3600,
    # Until it is killed: more than a busy machine takes to end in good order, and less than a head that closes waits.
    "kill_delay_s": LIMIT_S / 2,
    "terminate_interval_s": LIMIT_S / 4,
    "sequential_signals": True,
    "warn_s": 600.0,
}


class FakeHere:
    """Fake `openpbs`, `torque` or `lsf` with nodes `n1` to `n4` in `folder`; `site` has what differs from `SITE`."""

    def __init__(self, folder: Path, system: str, **site: Any) -> None:
        self.folder = folder
        self.system = system
        self._site = {**SITE, "system": system, **site}
        home = folder / "home"
        path = f"{BIN}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {"PATH": path, "HOME": str(home)}
        if system == "lsf":
            self.environment["LSF_ENVDIR"] = str(folder / "conf")
        else:
            self.environment["PBS_CONF_FILE"] = str(folder / "pbs.conf")

    def __enter__(self) -> Self:
        for name in ("home", "conf", "faults"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "site.json").write_text(json.dumps(self._site))
        (self.folder / "pbs.conf").write_text(f"PBS_SERVER=pbs1\nPBS_HOME={self.folder}\n")
        (self.folder / "conf" / "lsf.conf").write_text(f"LSB_SHAREDIR={self.folder}\n")
        # What sites have in /etc/profile.d.
        lines = [f"export {name}='{value}'\n" for name, value in self.environment.items() if name != "HOME"]
        (self.folder / "home" / ".bash_profile").write_text("".join(lines))
        with (self.folder / "server.out").open("wb") as out:
            words = [sys.executable, FAKES / "fake_batchd.py", self.folder]
            self._server = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        until_files_blocking(self.folder, lambda: (self.folder / "ready").exists() or self._server.poll() is not None)
        assert self._server.poll() is None, (self.folder / "server.out").read_text()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.terminate()
        try:
            self._server.wait(END_S)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()

    def say(self, *words: object, check: bool = True, stdin: str = "") -> str:
        """Run one of its commands; return what it prints."""
        done = subprocess.run(
            [str(word) for word in words],
            env={**os.environ, **self.environment},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0 or not check, f"{words} ended with {done.returncode}: {done.stderr}"
        return done.stdout.strip()

    def jobs(self) -> dict[str, str]:
        """Return the states of all jobs that it knows, by id, as its own listing has them."""
        if self.system == "lsf":
            records = json.loads(self.say("bjobs", "-a", "-u", "all", "-o", "jobid stat", "-json"))["RECORDS"]
            return {record["JOBID"]: record["STAT"] for record in records}
        history = ["-x"] if self.system == "openpbs" and self._site["history"] else []
        found: dict[str, str] = {}
        native = ""
        for line in self.say("qstat", "-f", *history).splitlines():
            name, _, value = line.strip().partition(" = ")
            native = line.removeprefix("Job Id: ") if line.startswith("Job Id: ") else native
            if name == "job_state":
                found[native] = value
        return found

    def in_queue(self) -> list[str]:
        """Return the ids of the jobs that have not ended."""
        return [native for native, state in self.jobs().items() if state not in ("F", "C", "DONE", "EXIT")]

    def end(self, native: str) -> None:
        """End a job as others do."""
        self.say("bkill" if self.system == "lsf" else "qdel", native)

    def fault(self, program: str, kind: str, words: str = "") -> Path:
        """Have a program fail until the file is removed: `hang` after its request was taken, `fail` with words."""
        path = self.folder / "faults" / f"{program}.{kind}"
        write_whole(path, words)
        return path

    def faults(self, program: str) -> int:
        """Return how often a program has failed so."""
        path = self.folder / "faults" / f"{program}.count"
        return len(path.read_text().splitlines()) if path.exists() else 0


def ask_often(monkeypatch):
    """Have a batch system be asked every second: what follows from a listing is tried here, not how long one waits for
    it. Who waits until blocks have ended waits however long that takes.
    """
    for name in ("YOUNG_PERIOD_S", "PERIOD_S", "LEAVING_PERIOD_S"):
        monkeypatch.setattr(f"grainlike.fleet._listing.{name}", 1.0)
    for name in ("head.fleet._driver.CLOSE_S", "jobs._pools.DOWN_S"):
        monkeypatch.setattr(f"grainlike.{name}", LIMIT_S)


@asynccontextmanager
async def opened(launch=None):
    """Open an executor without cores of its own, with pools, which workers reach on loopback."""
    async with asyncio.timeout(LIMIT_S), Executor(local=None, listen="tcp://127.0.0.1:0", launch=launch) as executor:
        yield executor


def ended(executor):
    """Return label and reason of the blocks that have ended."""
    rows = executor._service._service.launched.view.block_rows(ended=True)
    return {row.label: row.reason for row in rows if row.state == "ended"}


async def until_up(executor, workers=1):
    """Return the blocks once all of them are up, with so many workers, and their ids are known: a worker may join
    before the submission is answered.
    """

    def all_up():
        rows = executor.blocks()
        found = sum(row.workers for row in rows) == workers and {row.state for row in rows} == {"up"}
        return rows if found and all(row.native for row in rows) else None

    return await until(all_up)


async def command(*words):
    """Run a command of ours; return its exit code, and what it printed on both outputs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "grainlike", *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


def in_a_line(text):
    """Return what a command printed without the frame and the line ends of its box."""
    return " ".join(text.replace("│", " ").split())


@delayed
def where():
    """Return the ids of the block's job and the name of its host."""
    return os.environ.get("PBS_JOBID") or os.environ["LSB_JOBID"], os.uname().nodename


class Gate:
    """Jobs that wait for a file, and say by a file each that they run."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()

    def job(self, number=0):
        """Return a call of one core that ends once the gate is open; its value is the batch job it ran in."""
        return (_wait_at @ Cores(1))(str(self.folder), number)

    def attempts(self, number=0):
        """Return how often a job was started."""
        return len(list(self.folder.glob(f"{number}-begun-*")))

    def cleaned(self, number=0):
        """Return what those were told that had to end before the gate was open."""
        return [path.read_text() for path in sorted(self.folder.glob(f"{number}-cleaned-*"))]

    def open(self):
        """Let the jobs end."""
        (self.folder / "open").touch()


@delayed
async def _wait_at(folder, number):
    here, native = Path(folder), os.environ.get("PBS_JOBID") or os.environ["LSB_JOBID"]
    (here / f"{number}-begun-{native}").touch()
    try:
        while not (here / "open").exists():  # noqa: ASYNC110 - a process of its own, which nothing tells
            await asyncio.sleep(0.02)
    except asyncio.CancelledError as error:
        await asyncio.shield(asyncio.sleep(CLEAN_S))
        write_whole(here / f"{number}-cleaned-{native}", error)
        raise
    return native
