"""Memory limits kept by looking: what a runner and its descendants hold, and its end when that is too much.

The looking is done by the keeper, from outside: a thread inside the runner could not look while the job's native code
holds Python's lock.
"""

import time

from grainlike.subprocesses import descendants, kill_all
from grainlike_worker.ipc._claims import ClaimPage
from grainlike_worker.runner.process._memory_limit import resident, share, stored

__all__ = ["Watchdog"]

_FAR_S, _NEAR_S, _CLOSE_S = 0.25, 0.05, 0.02
"""How soon it looks again: at less than half of every limit, beyond that, and beyond four fifths."""


class Watchdog:
    """Looks after the runners that were added, while any of them has a limit.

    A process that goes beyond it is killed, and `taken` of its page says with how much.
    """

    def __init__(self) -> None:
        self._pages: dict[int, ClaimPage] = {}
        self._wait: float | None = None
        self._due = 0.0

    def add(self, pid: int, claims: ClaimPage) -> None:
        """Look after a runner from now on."""
        self._pages[pid] = claims

    def remove(self, pid: int) -> None:
        """Stop watching a runner that is gone."""
        self._pages.pop(pid, None)

    def next_s(self) -> float | None:
        """Return the seconds until the next look; None while there is no limit to keep."""
        return None if self._wait is None else max(0.0, self._due - time.monotonic())

    def look(self) -> None:
        """Look at everybody, if it is time."""
        now = time.monotonic()
        if self._wait is not None and now < self._due:
            return
        waits = [_wait(pid, page) for pid, page in self._pages.items()]
        self._wait = min((wait for wait in waits if wait is not None), default=None)
        self._publish(self._wait is not None)
        if self._wait is None and any(page.limit and not page.kernel for page in self._pages.values()):
            self._wait = 0.0  # set after we had looked, by somebody who still saw us watching
            self._publish(True)
        if self._wait is not None:
            self._due = now + self._wait

    def _publish(self, watched: bool) -> None:
        for page in self._pages.values():
            page.watched = int(watched)


def _wait(pid: int, page: ClaimPage) -> float | None:
    """Look at one runner; in how many seconds to look again, if it has a limit."""
    limit, lease = page.limit, page.leases
    if not limit or page.kernel:
        return None
    processes = [pid, *descendants(pid)]
    taken = _taken(processes, limit)
    if taken <= limit:
        part = taken / limit
        return _FAR_S if part < 0.5 else _NEAR_S if part < 0.8 else _CLOSE_S
    if page.leases == lease and page.limit == limit:  # else it was an earlier lease's
        page.taken = taken
        kill_all(processes)
    return _CLOSE_S


def _taken(processes: list[int], limit: int) -> int:
    """Return the bytes that processes hold; counted as exactly, and as slowly, as the limit takes."""
    several = len(processes) > 1
    taken = sum(map(resident, processes))
    if taken > limit and several:
        taken = sum(map(share, processes))
    if taken > limit:
        taken -= sum(stored(pid, fair=several) for pid in processes)
    return taken
