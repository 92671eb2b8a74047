"""Programs that were started with signals blocked or ignored, or without standard descriptors, run as all others."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from limits import LIMIT_S

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="as the keeper of runners is Linux's")

START = """
import os, signal, sys
how = sys.argv[1]
if how == "blocked":
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
elif how == "no SIGCHLD":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
elif how == "ignored":
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
else:
    for fd in map(int, how):
        os.close(fd)
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""

PROGRAM = """
import os, signal, sys, time
from pathlib import Path
import anyio
from grainlike import Cores, Executor, WorkerLostError, cancel, delayed, run, start

@delayed
def die():
    os._exit(3)

@delayed
def long(marker):
    Path(marker).write_text("begun")
    time.sleep(3600)

@delayed
def signals():
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return len(blocked), signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL, os.system("exit 7") >> 8

@delayed
def talk():
    print("a job"), print("a job", file=sys.stderr)
    os.system("echo a program; echo a program >&2")
    return 5

@delayed(isolate=True)
async def talk_later():
    print("a coroutine")
    return 6

async def main():
    said = [await (signals @ Cores(1))(), await (talk @ Cores(1))(), await (talk_later @ Cores(1))()]
    try:
        await (die @ Cores(1))()
    except WorkerLostError:
        said.append("lost")
    os.mkfifo("begun")
    r_ = start((long @ Cores(1))("begun"))
    await anyio.to_thread.run_sync(Path("begun").read_text)
    cancel(r_)
    said.append(await (talk @ Cores(1))())  # when the other has given its core back
    Path("said").write_text(repr(said))

async def opened():
    async with Executor(local=Cores(1)):
        await main()

run(main, local=Cores(1)) if sys.argv[1] == "run" else __import__("asyncio").run(opened())
"""


def started(folder: Path, how: str, *command: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}", "XDG_STATE_HOME": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", START, how, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.parametrize("way", ["run", "asyncio"])
@pytest.mark.parametrize("how", ["blocked", "no SIGCHLD", "ignored", "0", "1", "2", "01", "12", "012"])
def test_jobs_run_die_and_are_cancelled(tmp_path: Path, how: str, way: str) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = started(tmp_path, how, "program.py", way)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "said").read_text() == "[(0, True, 7), 5, 6, 'lost', 5]"
    shown = done.stdout.splitlines()
    assert shown.count("a program") == (0 if "1" in how else 2)


@pytest.mark.parametrize("how", ["1", "012"])
def test_commands_work_without_their_streams(tmp_path: Path, how: str) -> None:
    assert started(tmp_path, how, "-m", "grainlike", "--version").returncode == 0
    assert started(tmp_path, how, "-m", "grainlike", "ls").returncode == 3


def test_a_worker_with_all_signals_blocked_ends_when_it_is_told_to(tmp_path: Path) -> None:
    command = ["-m", "grainlike", "worker", "start", "--wait", "--resources", "cores=1", "--head", "tcp://127.0.0.1:9"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}", "XDG_STATE_HOME": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-c", START, "blocked", *command, "--insecure"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    line = process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=LIMIT_S)
    assert process.returncode in (0, 3), line + rest


CHANGES = """
import asyncio, os
from pathlib import Path
import anyio
from grainlike import Cores, Executor, delayed, start

home = Path.cwd()

def around():
    return os.getcwd(), os.environ.get("GIVEN"), os.environ.get("KEPT")

@delayed
def first():
    (home / "begun").write_text("yes")
    (home / "go").read_text()
    return os.getpid(), around()

@delayed
def second():
    return os.getpid(), around()

async def main():
    os.mkfifo("begun"), os.mkfifo("go")
    os.environ["KEPT"] = "kept"
    async with Executor(local=Cores(2)):
        early_ = start((first @ Cores(1))()) if EARLY else None
        if EARLY:
            await anyio.to_thread.run_sync((home / "begun").read_text)
        os.environ["GIVEN"], os.environ["KEPT"] = "late", "changed"
        (home / "elsewhere").mkdir(), os.chdir("elsewhere")
        found = [await (second @ Cores(1))()]
        if EARLY:
            (home / "go").write_text("on")
            found.append(await early_)
    assert len({pid for pid, _ in found}) == len(found)
    assert {place for _, place in found} == {(str(home), None, "kept")}, found

asyncio.run(main())
"""


@pytest.mark.parametrize("early", [True, False], ids=["beside an older process", "before any process"])
def test_jobs_have_the_directory_and_environment_of_when_the_executor_opened(tmp_path: Path, *, early: bool) -> None:
    (tmp_path / "program.py").write_text(CHANGES.replace("EARLY", str(early)))
    done = started(tmp_path, "no SIGCHLD", "program.py")
    assert done.returncode == 0, done.stderr
