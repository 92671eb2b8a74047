"""Every integration test leaves the machine as it found it, or fails and says what it left behind."""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import anyio.to_thread
import psutil
import pytest
import uvloop

from grainlike.cli import main

# libuv makes one pipe for a process with its first loop, and keeps it.
uvloop.new_event_loop().close()

# The longest wait for what a test left: the kernel reaps processes and closes sockets a moment after we let go.
GRACE_S = 30.0


@pytest.fixture(autouse=True)
def no_leaks(watch_leaks: "WatchLeaks") -> Iterator[None]:
    """Fail a test that leaves a process, a thread, a file descriptor or an asyncio task behind."""
    with watch_leaks():
        yield


@pytest.fixture(scope="session")
def watch_leaks() -> "WatchLeaks":
    """For fixtures of other scopes: `with watch_leaks():` fails when the block leaves anything behind."""
    return _watch_leaks


WatchLeaks = Callable[[], contextlib.AbstractContextManager[None]]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., Awaitable[tuple[int, str, str]]]:
    """Return a function that runs the command line in a thread: exit code, standard output and standard error."""

    async def tell(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = await anyio.to_thread.run_sync(main, [str(word) for word in arguments])
        written = capsys.readouterr()
        return code, written.out, written.err

    return tell


@contextlib.contextmanager
def _watch_leaks() -> Iterator[None]:
    before = {name: probe() for name, probe in _PROBES.items()}
    with pytest.MonkeyPatch.context() as patches:
        orphans = _watch_loops(patches)
        yield
        left = {name: _left(probe, before[name]) for name, probe in _PROBES.items()}
    left["task"] = orphans
    report = [f"{name}: {', '.join(sorted(what))}" for name, what in left.items() if what]
    if report:
        pytest.fail("left behind\n  " + "\n  ".join(report), pytrace=False)


def _watch_loops(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the tasks still pending when a loop's runner closes it, which would cancel them in silence."""
    orphans: list[str] = []
    close = asyncio.Runner.close

    def recording_close(runner: asyncio.Runner) -> None:
        # A closed runner has no loop to ask for.
        with contextlib.suppress(RuntimeError):
            tasks = asyncio.all_tasks(runner.get_loop())
            # The task in which anyio's own pytest plugin runs the test ends with the loop.
            orphans.extend(text for text in map(repr, tasks) if "_run_tests_and_fixtures" not in text)
        close(runner)

    monkeypatch.setattr(asyncio.Runner, "close", recording_close)
    return orphans


def _left(probe: Callable[[], dict[str, str]], before: dict[str, str]) -> list[str]:
    deadline = time.monotonic() + GRACE_S
    while True:
        left = [text for key, text in probe().items() if key not in before]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.01)


def _processes() -> dict[str, str]:
    if not _has_children():
        return {}
    found = {}
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            # Its hash is of its id and its start since boot: a time of the calendar changes when that is set.
            found[f"{child.pid}@{hash(child)}"] = f"pid {child.pid} {child.name()} ({child.status()})"
    return found


def _has_children() -> bool:
    """Return True if there is a child to wait for; psutil would look through all processes of the machine."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _threads() -> dict[str, str]:
    # A worker thread of anyio or trio idles a while for its next call: it belongs to the library, not to us.
    return {
        str(thread.ident): thread.name
        for thread in threading.enumerate()
        if not thread.name.startswith(("AnyIO worker thread", "Trio thread"))
    }


def _descriptors() -> dict[str, str]:
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        # The descriptor that lists the directory is itself in the list, and gone when asked about.
        with contextlib.suppress(OSError):
            target = entry.readlink()
            found[f"{entry.name}:{target}"] = f"fd {entry.name} -> {target}"
    return found


_PROBES: dict[str, Callable[[], dict[str, str]]] = {
    "process": _processes,
    "thread": _threads,
    "descriptor": _descriptors,
}
