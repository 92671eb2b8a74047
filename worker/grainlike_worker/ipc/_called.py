"""Places in the page of a shared runner, in which it notes how many jobs of each lease it has called.

The worker gives a lease its place, and gives the place to another once all jobs of the first are answered for: while
what the runner has said of it may still be lost with the process, what stands there is kept.
"""

from __future__ import annotations

from grainlike_worker.ipc._steps import CALLED, PLACES

__all__ = ["CalledPlaces"]


class CalledPlaces:
    """The places of the leases that one process has.

    Example::

        places = CalledPlaces()
        place = places.give(lease=7, jobs=3)    # the runner writes 1, 2, 3 there, each before it calls one
        places.called(page.words)               # {7: 0}: the first of them was called, and no other
        places.answered(7, 3, page.words)       # all have ended: the next lease may have the place
    """

    __slots__ = ("_free", "_leases", "_most")

    def __init__(self) -> None:
        self._leases: dict[int, _Given] = {}
        self._free: list[int] = []
        self._most = 0

    def give(self, lease: int, jobs: int) -> int:
        """Return the place of a lease with so many jobs; 0, where nothing can be read, while all are taken."""
        if self._free:
            place = self._free.pop()
        elif self._most + 1 < PLACES:
            place = self._most = self._most + 1
        else:
            place = 0
        self._leases[lease] = _Given(place, jobs)
        return place

    def answered(self, lease: int, jobs: int, words: memoryview[float] | None) -> None:
        """So many jobs more of a lease are answered for."""
        given = self._leases.get(lease)
        if given is None:
            return
        given.left -= jobs
        if given.left <= 0:
            del self._leases[lease]
            if given.place:
                self._free.append(given.place)
                if words is not None:
                    words[CALLED + given.place] = 0

    def called(self, words: memoryview[float]) -> dict[int, int]:
        """Return the position of the job that was called last, by lease: all may have been of one without a place."""
        counts = {
            lease: int(words[CALLED + its.place]) if its.place else its.jobs for lease, its in self._leases.items()
        }
        return {lease: count - 1 for lease, count in counts.items() if count}


class _Given:
    __slots__ = ("jobs", "left", "place")

    def __init__(self, place: int, jobs: int) -> None:
        self.place = place
        self.jobs = self.left = jobs
