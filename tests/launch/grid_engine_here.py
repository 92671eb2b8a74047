"""A real Grid Engine on this machine: a qmaster and two hosts with an execd each, from Debian's packages, as root.

Grid Engine wants hosts that have names and addresses of their own. So each is made of namespaces (mounts, host name,
network): `g0`, where the qmaster is and jobs are submitted, and `g1` and `g2`, which run them, joined by a bridge
within `g0`. Of the machine itself nothing is changed: the packages are unpacked in a folder, and laid over `/usr` there
alone. All that it writes is in one folder; a host that runs jobs has a PID namespace, too, whose processes end with its
first.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from limits import LIMIT_S

__all__ = ["PACKAGES", "GridEngineHere", "missing"]

PACKAGES = Path(sys.prefix) / "gridengine"
"""Folder in which `make test-launch` unpacks the packages."""

MASTER, HOSTS = "g0", ("g1", "g2")
SLOTS = 4
END_S = 10.0
PARALLEL = {"mpi": "$pe_slots", "each": "1", "two": "2", "fill": "$fill_up"}
"""Parallel environments, and how each spreads its slots over hosts."""
_KINDS = (("mnt", 0x00020000), ("uts", 0x04000000), ("net", 0x40000000))
_CLONE_FS = 0x00000200


def missing() -> list[str]:
    """Return which programs of Grid Engine are not unpacked."""
    programs = [PACKAGES / "usr/lib/gridengine" / name for name in ("sge_qmaster", "sge_execd", "qsub", "qconf")]
    return [str(program) for program in programs if not program.exists()]


class GridEngineHere:
    """Grid Engine with the hosts `g1` and `g2`, in `folder`, from `with GridEngineHere(folder) as engine` on.

    Attributes:
        environment: variables with which Grid Engine's commands find it, on its hosts.
        apart: a directory that each host has for itself, on no file system that they share.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.apart = folder, folder / "apart"
        self._holders: dict[str, subprocess.Popen[bytes]] = {}
        self._pids: dict[str, int] = {}
        self._ended = ExitStack()
        self.environment = {
            "SGE_ROOT": str(folder / "root"),
            "SGE_CELL": "here",
            "SGE_QMASTER_PORT": "6444",
            "SGE_EXECD_PORT": "6445",
        }

    def __enter__(self) -> Self:
        self.folder.mkdir(mode=0o755, exist_ok=True)
        with ExitStack() as stack:
            self._write_cell()
            for number, name in enumerate((MASTER, *HOSTS)):
                self._make_host(stack, name, number)
            self._spool()
            self._start_master(stack)
            self._until(lambda: self._run(MASTER, "qconf", "-sh").returncode == 0, "the qmaster does not answer")
            for name in HOSTS:
                self.say("qconf", "-ah", name)
                self._begin(name)
            self._until(lambda: set(HOSTS) <= {*self.say("qconf", "-sel", check=False).split()}, "hosts are missing")
            self._set_up()
            self._until(self._all_there, "the hosts do not report")
            self._ended = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.say("qdel", "-f", "-u", "*", check=False)
        self._ended.close()

    # --- what tests ask and do ---------------------------------------------------------------------------------------

    def say(self, *words: object, check: bool = True) -> str:
        """Run a command where jobs are submitted; return what it prints."""
        done = self._run(MASTER, *words)
        assert done.returncode == 0 or not check, f"{words} ended with {done.returncode}: {done.stderr}{done.stdout}"
        return done.stdout.strip()

    def jobs(self) -> dict[str, str]:
        """Return the state of each job in the queue, by id."""
        rows = [line.split() for line in self.say("qstat", "-u", "*").splitlines()[2:]]
        return {row[0]: row[4] for row in rows}

    def end_of(self, number: str) -> str:
        """Return how a job has ended, once it has: `failed 0 exit_status 0`."""
        found: dict[str, str] = {}

        def written() -> bool:
            lines = self.say("qacct", "-j", number, check=False).splitlines() if number not in self.jobs() else []
            found.update((word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines))
            return "exit_status" in found

        self._until(written, f"job {number} does not end")
        return f"failed {found['failed']} exit_status {found['exit_status']}"

    def kill(self, host: str, pid: int) -> None:
        """Kill a process of a host, where it has this number."""
        command = ["nsenter", "-t", str(self._pids[host]), "-p", "--", "kill", "-KILL", str(pid)]
        subprocess.run(command, check=True)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Have this thread, and what it starts, be where jobs are submitted."""
        here, there = Path.cwd(), self._pids[MASTER]
        back = [os.open(f"/proc/thread-self/ns/{kind}", os.O_RDONLY) for kind, _ in _KINDS]
        try:
            _call("unshare", _CLONE_FS)  # nobody enters a mount namespace who shares root and directory with others
            _set_namespaces([os.open(f"/proc/{there}/ns/{kind}", os.O_RDONLY) for kind, _ in _KINDS], here)
            yield
        finally:
            _set_namespaces(back, here)

    # --- its files ---------------------------------------------------------------------------------------------------

    def _write_cell(self) -> None:
        folder, common = self.folder, self.folder / "root" / "here" / "common"
        for path in (
            common,
            folder / "spool/qmaster",
            folder / "spool/execd",
            folder / "given",
            folder / "tmp",
            self.apart,
        ):
            path.mkdir(parents=True)
        (folder / "root" / "util").symlink_to("/usr/share/gridengine/util")
        for name in ("bin", "utilbin"):
            (folder / "root" / name).mkdir()
            (folder / "root" / name / "lx-amd64").symlink_to("/usr/lib/gridengine")
        names = "".join(f"{_address(number)} {name}\n" for number, name in enumerate((MASTER, *HOSTS)))
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{names}")
        (folder / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\nservices: files\n")
        (common / "act_qmaster").write_text(f"{MASTER}\n")
        (common / "bootstrap").write_text(
            f"""\
admin_user none
default_domain none
ignore_fqdn true
spooling_method classic
spooling_lib libspoolc
spooling_params {common};{folder}/spool/qmaster
binary_path /usr/sbin
qmaster_spool_dir {folder}/spool/qmaster
security_mode none
listener_threads 2
worker_threads 2
scheduler_threads 1
"""
        )

    def _spool(self) -> None:
        text = (PACKAGES / "usr/share/gridengine/default-configuration").read_text()
        mended = _with(
            text,
            execd_spool_dir=f"{self.folder}/spool/execd",
            mailer="/bin/true",
            min_uid="0",  # root's jobs
            min_gid="0",
            load_report_time="00:00:01",
            reporting_params="accounting=true reporting=false flush_time=00:00:01 joblog=false sharelog=00:00:00",
        )
        (self.folder / "given" / "configuration").write_text(mended)
        tools, resources = "/usr/lib/gridengine", "/usr/share/gridengine/util/resources"
        where = f"{self.folder}/root/here/common;{self.folder}/spool/qmaster"
        self.say(f"{tools}/spoolinit", "classic", "libspoolc", where, "init")
        self.say(f"{tools}/spooldefaults", "configuration", self.folder / "given" / "configuration")
        self.say(f"{tools}/spooldefaults", "complexes", f"{resources}/centry")
        self.say(f"{tools}/spooldefaults", "usersets", f"{resources}/usersets")
        self.say(f"{tools}/spooldefaults", "managers", "root")

    def _set_up(self) -> None:
        self.say("qconf", "-as", MASTER)
        often = {"schedule_interval": "0:0:1", "flush_submit_sec": "1", "flush_finish_sec": "1"}
        self._give("-Msconf", _with(self.say("qconf", "-ssconf"), **often))
        kinds = "exclusive excl BOOL EXCL YES YES 0 1000\ngpu gpu INT <= YES JOB 0 0\n"
        self._give("-Mc", f"{self.say('qconf', '-sc')}\n{kinds}")
        for name in HOSTS:
            self.say("qconf", "-aattr", "exechost", "complex_values", "exclusive=true,gpu=1", name)
        self._give("-Ahgrp", f"group_name @here\nhostlist {' '.join(HOSTS)}\n")
        for name, rule in PARALLEL.items():
            self._give("-Ap", _PARALLEL_ENVIRONMENT.format(name=name, rule=rule))
        queue = {
            "hostlist": "@here",
            "tmpdir": f"{self.folder}/tmp",
            "pe_list": " ".join(PARALLEL),
            "slots": str(SLOTS),
            "load_thresholds": "NONE",
        }
        template = self.say("qconf", "-sq")
        self._give("-Aq", _with(template, qname="work", **queue))
        self._give("-Aq", _with(template, qname="minute", h_rt="0:1:0", **queue))

    def _give(self, option: str, text: str) -> None:
        path = self.folder / "given" / option.lstrip("-")
        path.write_text(text)
        self.say("qconf", option, path)

    # --- its hosts and programs --------------------------------------------------------------------------------------

    def _make_host(self, stack: ExitStack, name: str, number: int) -> None:
        folder = self.folder
        lines = [
            f"mount -t tmpfs apart {self.apart}",
            f"mount -t overlay packages -o lowerdir={PACKAGES}/usr:/usr /usr",
            f"mount --bind {folder}/hosts /etc/hosts",
            f"mount --bind {folder}/nsswitch.conf /etc/nsswitch.conf",
            f"hostname {name}",
            "ip link set lo up",
            "echo made",
            "read begin",
            f"/usr/sbin/sge_execd >{folder}/execd-{name}.out 2>&1",
        ]
        # The first process of a PID namespace takes all others with it.
        words = [] if name == MASTER else ["--pid", "--fork", "--kill-child", "--mount-proc"]
        holder = subprocess.Popen(
            ["unshare", "--mount", "--uts", "--net", *words, "sh", "-ec", "\n".join(lines)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._variables(),
        )
        stack.callback(_end, holder, signal.SIGKILL)
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"made\n", f"host {name} could not be made"
        self._holders[name] = holder
        self._pids[name] = holder.pid if name == MASTER else _only_child(holder.pid)
        if name == MASTER:
            self._say_here(name, "ip", "link", "add", "bridge", "type", "bridge")
            self._say_here(name, "ip", "addr", "add", f"{_address(number)}/24", "dev", "bridge")
            self._say_here(name, "ip", "link", "set", "bridge", "up")
            return
        peer = ("peer", "name", "eth0", "netns", self._pids[name])
        self._say_here(MASTER, "ip", "link", "add", name, "type", "veth", *peer)
        self._say_here(MASTER, "ip", "link", "set", name, "master", "bridge", "up")
        self._say_here(name, "ip", "addr", "add", f"{_address(number)}/24", "dev", "eth0")
        self._say_here(name, "ip", "link", "set", "eth0", "up")

    def _words(self, host: str, words: Sequence[object]) -> list[str]:
        return ["nsenter", "-t", str(self._pids[host]), "-m", "-u", "-n", "--", *(str(word) for word in words)]

    def _run(self, host: str, *words: object) -> subprocess.CompletedProcess[str]:
        command = self._words(host, words)
        return subprocess.run(command, env=self._variables(), capture_output=True, text=True, check=False)

    def _say_here(self, host: str, *words: object) -> None:
        done = self._run(host, *words)
        assert done.returncode == 0, f"{words} on {host} ended with {done.returncode}: {done.stderr}"

    def _start_master(self, stack: ExitStack) -> None:
        with (self.folder / "qmaster.out").open("wb") as out:
            started = subprocess.Popen(
                self._words(MASTER, ["/usr/sbin/sge_qmaster"]),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=self._variables(),
            )
        stack.callback(_end, started, signal.SIGTERM)

    def _begin(self, name: str) -> None:
        pipe = self._holders[name].stdin
        assert pipe is not None
        pipe.write(b"begin\n")
        pipe.flush()

    def _variables(self) -> dict[str, str]:
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        in_front = {"SGE_ND": "1"}  # a daemon stays the process that was started
        return {
            "PATH": path,
            "HOME": os.environ.get("HOME", "/root"),
            "LANG": "C.UTF-8",
            **self.environment,
            **in_front,
        }

    def _all_there(self) -> bool:
        lines = [line.split() for line in self.say("qstat", "-f", "-q", "work").splitlines()]
        rows = [words for words in lines if words and words[0].startswith("work@")]
        return len(rows) == len(HOSTS) and all(len(words) == 5 and words[3] != "-NA-" for words in rows)

    def _until(self, condition: Callable[[], object], why_not: str) -> None:
        end = time.monotonic() + LIMIT_S
        while not condition():
            if time.monotonic() > end:
                paths = [*self.folder.glob("*.out"), *self.folder.glob("spool/**/messages")]
                logs = [f"{path.name}: {path.read_text()[-1500:]}" for path in sorted(paths)]
                raise TimeoutError("\n".join([why_not, *logs]))
            time.sleep(0.05)  # no program of Grid Engine's tells of such things


_PARALLEL_ENVIRONMENT = """\
pe_name {name}
slots 999
user_lists NONE
xuser_lists NONE
start_proc_args NONE
stop_proc_args NONE
allocation_rule {rule}
control_slaves TRUE
job_is_first_task TRUE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
"""


def _address(number: int) -> str:
    return f"10.99.0.{number + 1}"


def _with(text: str, **changes: str) -> str:
    """Return settings with some of them changed."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    words = [line.split(None, 1) for line in lines]
    return "".join(f"{name} {changes.get(name, ' '.join(rest))}\n" for name, *rest in words)


def _only_child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())


def _set_namespaces(opened: Sequence[int], directory: Path) -> None:
    for descriptor, (_, kind) in zip(opened, _KINDS, strict=True):
        _call("setns", descriptor, kind)
        os.close(descriptor)
    os.chdir(directory)


def _call(name: str, *words: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*words) != 0:
        raise OSError(ctypes.get_errno(), name)


def _end(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    process.send_signal(number)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
