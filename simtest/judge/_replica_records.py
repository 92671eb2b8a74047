"""Judge's records of where replicas should be, and by which way they go.

Raises `AssertionError` when one of these promises is broken:

1. Nothing is copied to a worker that leaves. Nothing goes through the head that a worker could send directly to its
   target; and nothing goes directly between workers without data servers, or that did not reach one another within the
   last minute.
2. Whoever asks for replicas hears once that they are there: as many as were asked for, or as there are workers whose
   stores could hold them.
3. A value that lacks replicas is on its way where both ends are free, and one has room for it beside all other values
   that lack replicas and can not be copied now: room may be kept for these. So may room for the inputs of a job that
   waits, unless the value is one of them. All counts until the head hears that it was damaged.
4. Of each value one replica is not spare, and as many as were asked for.
5. A worker that drains is told to end when the values that it has are elsewhere too, if they can be, or after a minute;
   it is told in the end.
"""

from __future__ import annotations

from collections.abc import Iterable

from grainlike.scheduler import PROGRAM
from grainlike.simulation import Clock
from simtest.judge._store_records import StoreRecords
from simtest.judge._value_records import ValueRecords

__all__ = ["ReplicaRecords"]

_FOREVER = float("inf")
_BLOCKED_S = 60.0
_REST_S = 61.0
"""Seconds for which a pair rests after a failure at most, and a moment."""


class ReplicaRecords:
    """Records of what the client asked for, and of workers that leave. `values` and `stores` are the judge's records of
    values, and of workers with limits.
    """

    def __init__(self, clock: Clock, values: ValueRecords, stores: StoreRecords) -> None:
        self._clock = clock
        self._stores = stores
        self._values = values
        self._joined: dict[int, float] = {}
        """Time of the end of each connected worker."""
        self._serving: set[int] = set()
        self._suspects: set[int] = set()
        self._leaving: set[int] = set()
        self._drained_at: dict[int, float] = {}
        """Workers that drain and have not been told to end, with the time when they began to."""
        self._failed: dict[tuple[int, int], float] = {}
        self._unreachable: dict[tuple[int, int], float] = {}
        self._kept: dict[int, int] = {}
        """Replicas that the client asked for, by value."""
        self._waiting: set[int] = set()
        self._spare: dict[tuple[int, int], set[int]] = {}
        """Workers that were told that their replica is spare, by value and attempt."""

    # --- workers -----------------------------------------------------------------------------------------------------

    def joined(self, worker: int, ends_at: float) -> None:
        """Record a new worker."""
        self._joined[worker] = ends_at

    def serves(self, worker: int) -> None:
        """Record that a worker has a data server."""
        self._serving.add(worker)

    def suspected(self, worker: int) -> None:
        """Record that the head suspects a worker."""
        self._suspects.add(worker)

    def trusted(self, worker: int) -> None:
        """Record that the head trusts a worker again."""
        self._suspects.discard(worker)

    def leaving(self, worker: int) -> None:
        """Record that a worker has announced that it stops."""
        self._leaving.add(worker)
        self._drained_at.pop(worker, None)

    def draining(self, worker: int) -> None:
        """Record that a worker is to end when its jobs have."""
        if worker not in self._leaving:
            self._leaving.add(worker)
            self._drained_at[worker] = self._clock.now

    def gone(self, worker: int) -> None:
        """Record that the head has given up a worker."""
        self._joined.pop(worker, None)
        self._drained_at.pop(worker, None)

    def let_off(self, worker: int) -> None:
        """Check that a worker which drains may end."""
        assert worker in self._drained_at, f"worker {worker} is told to end, and was not to drain, or was told before"
        late = self._clock.now >= self._drained_at.pop(worker) + _BLOCKED_S or self._clock.now >= self._joined[worker]
        unheard = any(not self._values.lives(one) for one in self._joined.keys() - self._leaving)
        if late or unheard or not self._able():  # a worker whose death was not heard of may have been given its values
            return
        for value in self._values.needed_at(worker):
            others = self._staying(value)
            assert others, f"worker {worker} is told to end, and value {value} is nowhere else that stays"

    def check_rest(self) -> None:
        """Check that nothing is waited for any more."""
        left = sorted(self._drained_at.keys() & self._joined.keys())
        assert not left, f"workers {left} drain for ever"
        waiting = sorted(self._waiting)
        assert not waiting, f"whoever asked for replicas of values {waiting} was not told"

    def _able(self) -> set[int]:
        """Return the workers that could have replicas for their safety, whatever their time."""
        unable = self._leaving | self._suspects | self._stores.over
        return {
            worker
            for worker, ends_at in self._joined.items()
            if ends_at == _FOREVER and worker not in unable and self._values.lives(worker)
        }

    def _staying(self, value: int) -> set[int]:
        return self._values.holders(value) - self._leaving

    # --- copies ------------------------------------------------------------------------------------------------------

    def copying(self, source: int, target: int, value: int, *, relayed: bool) -> None:
        """Check the way of a copy that is asked for."""
        now = self._clock.now
        assert target not in self._leaving, f"value {value} is copied to worker {target}, which leaves"
        if not relayed:
            assert {source, target} <= self._serving, f"value {value} goes directly from {source} to {target}"
            blocked = now < self._unreachable.get((source, target), -_BLOCKED_S) + _BLOCKED_S
            assert not blocked, f"value {value} goes directly to worker {target}, which does not reach {source}"
            return
        if source == PROGRAM or target not in self._serving:
            return
        for holder in (self._values.holders(value) & self._serving) - self._suspects:
            tried = max(self._failed.get((holder, target), -_REST_S), self._unreachable.get((holder, target), -_REST_S))
            words = f"value {value} is relayed to worker {target}, which could have it from {holder}"
            assert now < tried + _REST_S, words

    def copied(self, source: int, target: int, *, whole: bool, unreachable: bool) -> None:
        """Record how a copy has ended."""
        if unreachable:
            self._unreachable[source, target] = self._clock.now
        elif not whole:
            self._failed[source, target] = self._clock.now

    # --- replicas that were asked for --------------------------------------------------------------------------------

    def replicating(self, value: int, copies: int) -> None:
        """Record that the client asks for replicas."""
        self._kept[value] = copies or 1 << 30
        self._waiting.add(value)

    def replicated(self, value: int) -> None:
        """Check that a value has the replicas of which the client hears."""
        assert value in self._waiting, f"the client hears of replicas of value {value}, and has not asked"
        self._waiting.discard(value)
        self._check_enough(value)

    def _check_enough(self, value: int) -> None:
        here = self._staying(value)
        lacking = {worker for worker in self._able() - here if self._stores.could_keep(worker, value)}
        enough = len(here) >= self._kept[value] or not lacking or self._values.was_damaged(value)
        words = f"value {value} is at workers {sorted(here)}, and is to be at {sorted(lacking)} too"
        assert enough or not self._knows_all_deaths(), words

    def lost(self, value: int) -> None:
        """Record that the client hears that a value is lost."""
        self._waiting.discard(value)

    def sparing(self, worker: int, replicas: list[tuple[int, int]], *, is_spare: bool) -> None:
        """Record what a worker is told of its replicas."""
        for replica in replicas:
            spare = self._spare.setdefault(replica, set())
            if is_spare:
                spare.add(worker)
            else:
                spare.discard(worker)

    def is_spare(self, worker: int, value: int) -> bool:
        """Return True if a worker was told that its replica of a value is spare."""
        return worker in self._spare.get((value, self._values.attempt(value)), ())

    def decided(self) -> None:
        """Check what workers were told of spare replicas, and that what values lack is on its way, if it can be."""
        for (value, attempt), spare in self._spare.items() if self._knows_all_deaths() else ():
            here = self._values.holders(value)
            if attempt == self._values.attempt(value) and spare & here and not self._values.was_damaged(value):
                lasting = sum(self._joined.get(worker) == _FOREVER for worker in here - self._leaving)
                least = min(self._kept.get(value, 1), lasting or 1)
                assert len(here - spare) >= least, f"of value {value} too few replicas are kept: {here - spare}"
        for value, copies in self._kept.items():
            here = self._values.holders(value)
            if not here or len(here - self._leaving) >= copies or not self._values.is_needed(value):
                continue
            others = self._joined.keys() - self._suspects - self._leaving - self._stores.over - here
            if self._able() - here and not self._values.was_damaged(value) and self._is_free(here, others):
                if self._values.is_coming(value):
                    continue
                words = f"value {value} is at workers {sorted(here)} only, and nothing is done about that"
                assert not self._with_room(value) - here, words

    def _knows_all_deaths(self) -> bool:
        """Return True if the head counts on no worker that is dead."""
        return all(map(self._values.lives, self._joined))

    def _with_room(self, value: int) -> set[int]:
        """Return the workers that could have a value beside all others that wait to be copied there, and beside the
        inputs of any job that waits for room.
        """
        others = [other for other in self._values.needed_somewhere() if other != value and self._lacks(other)]
        kept = {worker: self._kept_for(worker, others) for worker in self._able()}
        return {
            worker
            for worker, values in kept.items()
            if all(
                self._stores.has_room(worker, value, [*values, *inputs])
                for inputs in ((), *self._stores.waited_for(worker, value))
            )
        }

    def _lacks(self, value: int) -> bool:
        """Return True if a value has too few replicas that last: at workers without an end, that are not suspected, and
        that do not exceed what they may keep.
        """
        here = self._staying(value) - self._suspects - self._stores.over
        return sum(self._joined.get(worker) == _FOREVER for worker in here) < self._kept.get(value, 1)

    def _kept_for(self, worker: int, values: Iterable[int]) -> list[int]:
        """Return those of the values for which room may be kept at a worker, as they can not be copied there now."""
        holders = self._values.holders
        return [value for value in values if not self._is_free(holders(value), {worker} - holders(value))]

    def _is_free(self, here: set[int], others: set[int]) -> bool:
        """Return True if all `others` could get a value at once from each worker that has it."""
        sources = here - self._suspects
        if not sources or any(map(self._values.goes_in, others)) or any(map(self._values.goes_out, sources)):
            return False
        tried = [self._failed.get((source, target), -_REST_S) for source in sources for target in others]
        return all(self._clock.now >= at + _REST_S for at in tried)
