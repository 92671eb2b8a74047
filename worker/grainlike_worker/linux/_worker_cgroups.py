"""The cgroups of one worker: one for each of its runners, in a cgroup of the worker's own.

    own                                 where the worker was started, and what was delegated to it
     `-- grainlike.SPACE.PID.START.TAG  the worker's
          |-- worker                    where it has moved itself: one that has controllers below holds no processes
          `-- jobs
               |-- runner-PID           a runner, and all that its jobs start, wherever that goes
               `-- ...

SPACE is the namespace in which PID is counted: workers in several, as on machines that are containers, may share one
place, and from one of them it cannot be seen whether a process of another is there.

With them everything of a runner is ended at once, however it forks. Where memory is delegated too, the kernel holds the
runner to what its job asked for. All of this is had where it can be had: what goes wrong is logged in a line, and
without cgroups the worker does what it does without them.
"""

import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from grainlike.system import MEMORY, Cgroup, own_cgroups

__all__ = ["RunnerCgroups", "claimed_cgroups", "memory_tier"]

logger = logging.getLogger("grainlike.worker")

_CONTROLLERS = "cgroup.subtree_control"
_JOBS, _HOME = "jobs", "worker"
_MEANING = {
    "cgroup": "the kernel holds jobs to the memory that they ask for",
    "watchdog": "a watchdog holds jobs to the memory that they ask for, by four looks a second: nothing need be done "
    "unless a job may fill the machine in less",
    "none": "jobs are not held to the memory that they ask for",
}
"""Clauses of a line of the log: how jobs are held to their memory, and what a reader has to do about it."""
_NAME = re.compile(r"grainlike\.(\d+)\.(\d+)\.(\d+)\.[0-9a-f]{6}")


class RunnerCgroups:
    """Cgroup under which a worker's runners get theirs; `limits` if the kernel can hold them to their memory."""

    __slots__ = ("_jobs", "limits")

    def __init__(self, path: str, *, limits: bool) -> None:
        self._jobs = Cgroup(path)
        self.limits = limits

    @property
    def path(self) -> str:
        """The directory in which they are."""
        return self._jobs.path

    def enter(self) -> str | None:
        """Put this process, a runner that was just forked, into a cgroup of its own: its path, None if that fails."""
        group = self.of(os.getpid())
        try:
            group.remove()  # of an earlier process of this number, if its keeper could not
            group.make()
            if self.limits:
                group.write("memory.oom.group", "1")
                if group.has("memory.swap.max"):
                    group.write("memory.swap.max", "0")
            group.add()
        except OSError as error:
            # This is no daemon: there is no log, but what is written here stands in the worker's.
            print(f"grainlike: a runner without a cgroup: {error}", file=sys.stderr, flush=True)  # noqa: T201
            group.remove()
            return None
        return group.path

    def of(self, pid: int) -> Cgroup:
        """Return the cgroup of a runner, whether or not it is there."""
        return self._jobs / f"runner-{pid}"

    def kill(self) -> None:
        """Kill all that is in any of them."""
        self._jobs.kill()

    def release(self) -> bool:
        """Have this process go back to where the worker was, and remove all that is empty then; whether that was all.

        The worker does so, and the keeper, which may outlive it.
        """
        base = self._jobs.above()
        own = base.above()
        self._jobs.remove()
        if os.access((base / _HOME).path, os.F_OK):  # the worker has moved there
            # In this order: while there are controllers below, no process can come back.
            for group in (base, own):
                with suppress(OSError):
                    group.write(_CONTROLLERS, f"-{MEMORY}")
            with suppress(OSError):
                own.add()
        return base.remove()


@contextmanager
def claimed_cgroups(*, move: bool) -> Iterator[RunnerCgroups | None]:
    """Cgroups for the runners of this process for as long as the block runs; None where there can be none.

    With `move` this process may leave its own cgroup for one below, if it is alone there: without that, the kernel
    keeps no limits below. What a worker that was killed has left behind here is removed, if no process is in it.
    """
    cgroups, words = _claim(move)
    logger.info("%s (%s)", _MEANING[_tier(cgroups)], words)
    try:
        yield cgroups
    finally:
        if cgroups is not None:
            cgroups.release()


def memory_tier() -> tuple[str, str]:
    """Return what would hold the jobs of a worker started here to their memory, and why. What it tries it undoes."""
    if sys.platform != "linux":
        return "none", f"{sys.platform} tells nobody of the memory of others"
    cgroups, words = _claim(move=True)
    if cgroups is not None:
        cgroups.release()
    return _tier(cgroups), words


def _tier(cgroups: RunnerCgroups | None) -> str:
    """Return what holds jobs with these cgroups to their memory."""
    if sys.platform != "linux":
        return "none"
    return "cgroup" if cgroups is not None and cgroups.limits else "watchdog"


def _claim(move: bool) -> tuple[RunnerCgroups | None, str]:
    """Make them at the first place where that can be done; what there is to say of it."""
    why = "no cgroup v2 is mounted"
    for own in own_cgroups():
        _remove_leftovers(own)
        base = own / _name()
        try:
            _make(own, base)
        except OSError as error:
            (base / _JOBS).remove()
            base.remove()
            why = f"{own.path}: {error}"
            continue
        try:
            why_not = _delegate(own, base, move)
        except OSError as error:
            why_not = str(error)
        words = f"without memory limits: {own.path}: {why_not}" if why_not else f"with memory limits, in {own.path}"
        return RunnerCgroups((base / _JOBS).path, limits=not why_not), f"jobs have cgroups {words}"
    return None, f"jobs have no cgroups: {why}"


def _make(own: Cgroup, base: Cgroup) -> None:
    """Make the worker's, with the place for those of its jobs. `OSError` where there can be none."""
    if not os.access(f"{own.path}/cgroup.procs", os.W_OK):
        raise PermissionError("the list of its processes is not ours to write")  # so no process could be moved below
    base.make()
    (base / _JOBS).make()
    kind = base.read("cgroup.type")
    if kind != "domain":
        raise OSError(f"cgroups below it are {kind!r}")


def _delegate(own: Cgroup, base: Cgroup, move: bool) -> str:
    """Have the kernel keep memory limits below; why it does not, or ""."""
    if MEMORY not in own.read("cgroup.controllers").split():
        return "it has no memory controller"
    if MEMORY not in own.read(_CONTROLLERS).split():
        others = [pid for pid in own.processes() if pid != os.getpid()]
        if others or not move:
            return "other processes are in it, too" if others else "a program stays where it was started"
        (base / _HOME).make()
        (base / _HOME).add()
        own.write(_CONTROLLERS, f"+{MEMORY}")
    for group in (base, base / _JOBS):
        group.write(_CONTROLLERS, f"+{MEMORY}")
    return ""


def _name() -> str:
    """Return a new name for the cgroup of this process."""
    return f"grainlike.{_namespace()}.{os.getpid()}.{_started(os.getpid())}.{os.urandom(3).hex()}"


def _remove_leftovers(own: Cgroup) -> None:
    """Remove what workers of ours that were killed have left here, where no process is in it: the cgroup of one that
    lives may be empty, too.
    """
    for group in own.below():
        name = _NAME.fullmatch(group.path.rpartition("/")[2])
        with suppress(OSError):
            if name is None or os.stat(group.path).st_uid != os.geteuid():  # noqa: PTH116
                continue
            space, pid, started = map(int, name.groups())
            if space == _namespace() and _started(pid) != started and not group.is_populated():
                group.remove()


def _namespace() -> int:
    """Return the number of the namespace in which this process and those that it sees are counted; 0 where the kernel
    has but one.
    """
    with suppress(OSError):
        return os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116
    return 0


def _started(pid: int) -> int:
    """Return when a process was started, in ticks since the machine was; 0 if it is gone. Its number alone may come
    again.
    """
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as told:  # noqa: PTH123
        fields = told.read().rpartition(b")")[2].split()
        return 0 if fields[0] in (b"Z", b"X") else int(fields[19])
    return 0
