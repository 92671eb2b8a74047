"""Picture of a head for pages: what each worker is and who runs on its slots, as pieces of JSON with versions.

A piece that changes moves to the end, with the next version. So a page remembers one number, the version up to which
it has all, and gets the pieces behind it, the oldest change first, as many as it may be sent: whatever changed several
times meanwhile is sent once, as it is now.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from grainlike.jobs import allocation_of
from grainlike.live import LiveState, Slot
from grainlike.wire import LiveIs, WorkerRow

__all__ = ["ClusterPicture", "PicturePart", "ranges"]

_CHUNK = 256
"""Slots of one piece."""

_MOST_NAMES = 2_000
"""Names of functions that have numbers; with more, the picture starts again with those that run."""

_MOST_GONE = 1_000
"""Workers that have left of which pages are told; one that has missed more starts again."""

_SHARE = 0.01
"""Largest share of this process's time that goes into drawing up changes."""

_LEAST_S = 0.2

_GOLDEN = 0.6180339887
"""Step of the place at which drawing begins, as a part of all: its multiples lie evenly, however many there are."""

_LONGEST = 300
"""Characters of a name or of a sentence that pages are sent."""

_encode = msgspec.json.Encoder().encode


class PicturePart(NamedTuple):
    """A part of the picture: `kind` is `f` for the name of a function, `w` for a worker, `c` for slots of one, `x` for
    one that has left.
    """

    version: int
    kind: str
    text: bytes


class _Use(NamedTuple):
    cores: int
    gpus: int
    busy_cores: int
    busy_gpus: int


class ClusterPicture:
    """Pieces of JSON for the updates that `take` is given.

    Attributes:
        state: what is so by these updates.
        epoch: counts how often the picture started again, with versions from 1 on.
        gone: version up to which it is forgotten which workers have left.
    """

    def __init__(self) -> None:
        self.state: LiveState = LiveState()
        self.epoch: int = 0
        self.gone: int = 0
        self._version = 0
        self._pieces: dict[tuple[str, int, int, int], PicturePart] = {}
        self._gone: dict[int, None] = {}
        self._numbers: dict[str, int] = {}
        """Numbers of the workers that are here, by name."""
        self._last = 0
        self._names: dict[str, int] = {}
        self._chunks: dict[int, list[int]] = {}
        self._use: dict[str, _Use] = {}
        self._dirty: dict[str, None] = {}
        self._due = 0.0
        self._turn = 0

    def take(self, told: LiveIs) -> None:
        """Take an update; what it changes is drawn up by `refresh`."""
        if told.full:
            self._begin_anew()
        self.state.take(told)
        for name in told.left:
            self._leave(name)
        self._dirty.update(dict.fromkeys(row.name for row in told.workers))
        self._dirty.update(dict.fromkeys(row.worker for row in told.began))
        self._dirty.update(dict.fromkeys(told.ended[1]))

    def _begin_anew(self) -> None:
        self.epoch += 1
        self.gone = self._version = 0
        for known in (self._pieces, self._gone, self._numbers, self._chunks, self._use, self._dirty):
            known.clear()
        if len(self._names) > _MOST_NAMES:
            self._names.clear()
        for name, number in self._names.items():  # a function keeps its number, and with it its colour
            self._put_name(number, name)

    def refresh(self, now: float) -> None:
        """Draw up what has changed, where that is due: seldom if it takes long. `now` is of `time.monotonic()`."""
        if not self._dirty or now < self._due:
            return
        began = time.perf_counter()
        dirty, self._dirty = list(self._dirty), {}
        # Where more changes than a page may be sent, it gets the first ones: each time they are others.
        self._turn += 1
        first = int(self._turn * _GOLDEN % 1 * len(dirty))
        for name in (*dirty[first:], *dirty[:first]):
            row = self.state.workers.get(name)
            if row is not None:
                self._draw(row)
        if len(self._names) > _MOST_NAMES:
            self._begin_anew()
            self._dirty = dict.fromkeys(self.state.workers)
        self._due = now + max(_LEAST_S, (time.perf_counter() - began) / _SHARE)

    def since(self, version: int) -> Sequence[PicturePart]:
        """Return the pieces behind a version, the oldest change first."""
        newer = []
        for piece in reversed(self._pieces.values()):
            if piece.version <= version:
                break
            newer.append(piece)
        newer.reverse()
        return newer

    def figures(self, now: float) -> dict[str, object]:
        """Return totals, rates and states of jobs, and how many slots are in use; `now` is as `state.at`."""
        state, used = self.state, self._use.values()
        totals = state.totals
        return {
            "at": state.at,
            "up": round(state.up_s),
            "jobs": state.jobs,
            "done": None if totals is None else [totals.succeeded, totals.failed, totals.timed_out],
            "dropped": None if totals is None else totals.cancelled + totals.skipped,
            "rate": round(state.throughput.rate(now), 1),
            "bad": round(state.throughput.failures(now), 1),
            "clients": state.clients,
            "workers": len(state.workers),
            "bytes": [
                sum(row.stored for row in state.workers.values()),
                sum(row.spilled for row in state.workers.values()),
                0 if totals is None else totals.moved,
            ],
            "cores": [sum(use.busy_cores for use in used), sum(use.cores for use in used)],
            "gpus": [sum(use.busy_gpus for use in used), sum(use.gpus for use in used)],
        }

    def number_of(self, name: str) -> int:
        """Return the number of a function's name, by which pages colour it: a new one, if it has none."""
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = len(self._names)
            self._put_name(known, name)
        return known

    # --- pieces ------------------------------------------------------------------------------------------------------

    def _put(self, kind: str, key: tuple[int, int, int], row: object) -> None:
        text = _encode(row)
        old = self._pieces.get((kind, *key))
        if old is not None and old.text == text:
            return
        self._pieces.pop((kind, *key), None)
        self._version += 1
        self._pieces[kind, *key] = PicturePart(self._version, kind, text)

    def _put_name(self, number: int, name: str) -> None:
        self._put("f", (number, 0, 0), [number, name[:_LONGEST]])

    def _leave(self, name: str) -> None:
        number = self._numbers.pop(name, None)
        self._use.pop(name, None)
        if number is None:
            return
        self._pieces.pop(("w", number, 0, 0), None)
        for kind, chunks in enumerate(self._chunks.pop(number, ())):
            for chunk in range(chunks):
                self._pieces.pop(("c", number, kind, chunk), None)
        self._put("x", (number, 0, 0), number)
        self._gone[number] = None
        if len(self._gone) > _MOST_GONE:
            oldest = next(iter(self._gone))
            del self._gone[oldest]
            self.gone = self._pieces.pop(("x", oldest, 0, 0)).version

    def _draw(self, row: WorkerRow) -> None:
        number = self._numbers.get(row.name)
        if number is None:
            self._last += 1
            number = self._numbers[row.name] = self._last
        slots = self.state.slots(row.name)
        cores = [slot for slot in slots if slot.kind == "cores"]
        gpus = [slot for slot in slots if slot.kind == "gpus"]
        running = len({job.job for slot in slots for job in slot.jobs})
        self._put("w", (number, 0, 0), [number, *_facts(row), running, row.stored, row.spilled])
        self._chunks[number] = [self._draw_slots(number, kind, some) for kind, some in enumerate((cores, gpus))]
        self._use[row.name] = _Use(len(cores), len(gpus), _busy(cores), _busy(gpus))

    def _draw_slots(self, number: int, kind: int, slots: list[Slot]) -> int:
        """Draw the cores (0) or GPUs (1) of a worker; return of how many pieces they are."""
        for chunk, first in enumerate(range(0, len(slots), _CHUNK)):
            part = list(_stretches(slots[first : first + _CHUNK], self.number_of))
            self._put("c", (number, kind, chunk), [number, kind, first, part])
        return -(-len(slots) // _CHUNK)


def _facts(row: WorkerRow) -> list[object]:
    """Return what a page shows of a worker beside its jobs."""
    offer = allocation_of(row.resources)
    return [
        *(row.name, row.block, row.host, row.resources[:_LONGEST], row.shut[:_LONGEST], row.pid, row.memory_tier),
        *(ranges(offer.cores), ranges(offer.gpus)),
    ]


def ranges(ids: Sequence[int]) -> list[list[int]]:
    """Return ids as ranges: the first, and how many follow each other."""
    found: list[list[int]] = []
    for number in ids:
        if found and found[-1][0] + found[-1][1] == number:
            found[-1][1] += 1
        else:
            found.append([number, 1])
    return found


def _busy(slots: Sequence[Slot]) -> int:
    return sum(1 for slot in slots if slot.jobs)


def _stretches(slots: Sequence[Slot], number_of: Callable[[str], int]) -> Iterator[list[int]]:
    """Iterate over neighbours that one job holds: place of the first, how many, number of the function's name, the job,
    and how many others share them. Of several jobs the last began last, and is the one that computes.
    """
    at = 0
    while at < len(slots):
        jobs = slots[at].jobs
        end = at + 1
        while end < len(slots) and slots[end].jobs == jobs:
            end += 1
        if jobs:
            yield [at, end - at, number_of(jobs[-1].name), jobs[-1].job, len(jobs) - 1]
        at = end
