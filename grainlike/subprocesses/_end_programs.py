"""Programs that others of this process may wait for, ended with all that they started, and not reaped here.

For a user's process, where `end_children` would take exit statuses that an event loop or a `Popen` is to have, and end
children that are the program's own. A process is known by its number and the moment of its start, so a number that the
system has given to another is never signalled.
"""

import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any, NamedTuple
from weakref import ref

__all__ = ["Program", "end_programs", "identify"]

_PROC = "/proc"

_NAP_S = (0.001, 0.05)
"""The first and the longest pause between two looks at who is still there."""

_KILLED_S = 5.0
"""How long a process may take to die of SIGKILL before it is left to the system."""


class Process(NamedTuple):
    """A process: its number, and when it was started, in clock ticks since the system was."""

    pid: int
    started: int

    def is_there(self) -> bool:
        """Return whether it lives, or was not reaped yet."""
        row = _row(self.pid)
        return row is not None and row.started == self.started

    def is_alive(self) -> bool:
        """Return whether it lives."""
        row = _row(self.pid)
        return row is not None and row.started == self.started and not row.dead

    def name(self) -> str:
        """Return the name of the program that it runs, at most 15 characters; empty when it is gone."""
        try:
            with open(f"{_PROC}/{self.pid}/comm", "rb") as told:  # noqa: PTH123
                return told.read().rstrip(b"\n").decode(errors="backslashreplace")
        except OSError:
            return ""

    def send(self, number: signal.Signals) -> None:
        """Signal this very process; nothing when it is gone or is not ours to signal."""
        with suppress(ProcessLookupError, PermissionError):
            try:
                watch = os.pidfd_open(self.pid)
            except (AttributeError, OSError):  # not there, or the system gives none
                if self.is_there():
                    os.kill(self.pid, number)
                return
            try:
                if self.is_there():
                    signal.pidfd_send_signal(watch, number)
            finally:
                os.close(watch)


class Handle:
    """A child where the system does not tell when it was started: signalled until its `Popen` has seen its end.

    It does not keep the `Popen`, whose pipes are closed when the user drops it.
    """

    __slots__ = ("_child", "pid")

    def __init__(self, child: "subprocess.Popen[Any]") -> None:
        self._child = ref(child)
        self.pid: int = child.pid

    def is_there(self) -> bool:
        """Return whether it lives, or was not reaped yet."""
        child = self._child()
        return child is not None and child.returncode is None

    is_alive = is_there

    def name(self) -> str:
        """Return words for it."""
        return "a program"

    def send(self, number: signal.Signals) -> None:
        """Signal it; nothing when it is gone or is not ours to signal."""
        if self.is_there():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)


Program = Process | Handle


class _Row(NamedTuple):
    """Entry of the system's table of processes."""

    pid: int
    parent: int
    group: int
    session: int
    started: int
    dead: bool


def identify(pid: int, child: "subprocess.Popen[Any] | None" = None) -> Program | None:
    """Return the child `pid` of this process, whose `Popen` is `child` if it has one, for `end_programs`.

    Returns None for one that has been reaped. Where there is no `/proc` (macOS), for one without a `Popen`, too.
    """
    row = _row(pid)
    if row is not None:
        return Process(pid, row.started) if row.parent == os.getpid() else None
    return Handle(child) if child is not None and child.returncode is None else None


async def end_programs(programs: Iterable[Program], grace_s: float) -> list[int]:
    """End programs and all that they started: SIGTERM, SIGKILL after `grace_s` seconds; return when they are gone.

    What they started is what descends from them, and who is in a process group or session that one of those leads.
    Where there is no `/proc`, only they themselves are ended, and the effect of SIGKILL is not waited for. Returns the
    numbers of those that survive it for seconds. None of them is reaped.

    Example::

        process = subprocess.Popen(["sleep", "100"])
        program = identify(process.pid, process)
        if program is not None:
            await end_programs([program], grace_s=1.0)
        process.wait()
    """
    import anyio

    # In their order: a shell is told before its child, or it would go on with its next command.
    known: dict[Program, None] = dict.fromkeys(programs)
    told: set[Program] = set()
    living: list[Program] = []
    for number, limit_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, _KILLED_S)):
        deadline = time.monotonic() + limit_s
        nap, longest = _NAP_S
        # All processes are looked at where that can tell something new: it would be much work for many naps.
        everywhere = True
        while True:
            living = _living(known)
            if everywhere or not living or number == signal.SIGKILL:
                known.update(dict.fromkeys(_family(known)))
                living = _living(known)
            fresh = [each for each in living if number == signal.SIGKILL or each not in told]
            for each in fresh:
                each.send(number)
                each.send(signal.SIGCONT)  # a stopped process takes no SIGTERM
            told.update(fresh)
            everywhere = bool(fresh)
            if number == signal.SIGKILL:
                known = {each: None for each in known if isinstance(each, Process)}
                living = _living(known)
            if not living:
                return []
            if time.monotonic() >= deadline:
                break
            await anyio.sleep(nap)
            nap = min(2 * nap, longest)
    return sorted(each.pid for each in living)


def _living(programs: Iterable[Program]) -> list[Program]:
    return [each for each in programs if each.is_alive()]


def _row(pid: int | str) -> _Row | None:
    try:
        with open(f"{_PROC}/{pid}/stat", "rb") as told:  # noqa: PTH123
            words = told.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return _Row(int(pid), int(words[1]), int(words[2]), int(words[3]), int(words[19]), words[0] in (b"Z", b"X"))


def _family(known: Collection[Program]) -> list[Process]:
    """Return who descends from those that are known and are there, or is in a group or session that one leads.

    Parents stand before their children.
    """
    try:
        rows = [row for row in map(_row, filter(str.isdecimal, os.listdir(_PROC))) if row is not None]  # noqa: PTH208
    except OSError:
        return []
    kin: dict[int, list[_Row]] = {}
    for row in rows:
        for leader in {row.parent, row.group, row.session}:
            kin.setdefault(leader, []).append(row)
    pending = [row for row in rows if Process(row.pid, row.started) in known]
    found = [Process(row.pid, row.started) for row in pending]
    seen = set(found)
    for row in pending:  # it grows while we walk
        # Its number is no other's while it is there, so all that name it mean it.
        for relative in kin.get(row.pid, ()):
            process = Process(relative.pid, relative.started)
            if process not in seen:
                seen.add(process)
                found.append(process)
                pending.append(relative)
    return found
