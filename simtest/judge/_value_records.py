"""Judge's records of values that stay: where each truly is, who needs it, and what the head has asked for.

Raises `AssertionError` when one of these promises is broken:

1. A job begins only where all its inputs are whole, and they are there until it has ended.
2. A value that nothing needs is at no worker a little later, if links are quiet.
3. There is one copy of a value to a worker at a time; no more than two (or sixteen small ones for each) go into a
   worker or out of it, and each ends in one way.
4. A value that is needed keeps its last replica; none is given up for room that is not spare.
5. A value is made again only if it is needed, no worker that was not given up has it, and its function may be lost as
   often (`_remakes`).
6. Whoever wants a value receives it, or hears that it is lost, once.
7. At rest there is nothing left.
8. A value of the client's own leaves it to one worker at a time, and only while none has it; the client keeps it until
   nothing needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from grainlike.scheduler import PROGRAM, ReplicasDropped
from grainlike.simulation import Clock, FunctionPlan, JobPlan
from simtest.judge._remakes import Remakes

__all__ = ["ValueRecords"]

_SMALL_BYTES = 1 << 20
_WHOLE = 16
_QUIET_S = 3.0
"""Seconds after which a value that nothing needs is gone, with the longest that a message travels."""

_SILENT_S = 60.0
"""Seconds after which it is gone, where links stand still."""


class _AskedCopy(NamedTuple):
    """Copy of a value that the head has asked for, and that has not ended."""

    source: int
    attempt: int
    weight: int


class ValueRecords:
    """Records of all values. `outcome` has the jobs that have one, `trouble` is True once links may stand still;
    `remakes` counts what is lost over values that are made again.
    """

    def __init__(
        self,
        clock: Clock,
        plans: dict[int, JobPlan],
        functions: tuple[FunctionPlan, ...],
        outcome: dict[int, str],
        *,
        closed: bool = False,
    ) -> None:
        self._clock = clock
        self._plans = plans
        self._functions = functions
        self._outcome = outcome
        self.trouble = False
        self._needs: dict[int, tuple[int, ...]] = {}
        self._users: dict[int, set[int]] = {}
        self._stores: dict[int, set[tuple[int, int]]] = {}
        self._known: dict[int, tuple[int, set[int]]] = {}
        """Attempt of each value that the head knows of, and the workers that have it for all that it has heard."""
        self._owned: set[int] = set()
        self._own: set[int] = set()
        """Values of the client's own that it keeps."""
        self._wanted: set[int] = set()
        self._replicated: set[int] = set()
        """Values for whose replicas the client waits."""
        self._copies: dict[tuple[int, int], _AskedCopy] = {}
        """Copies that are under way, by value and target."""
        self._running: dict[tuple[int, int], set[tuple[int, int]]] = {}
        """The replicas that were there of the inputs of each job when it began, by worker and job."""
        self._reviving: set[int] = set()
        self.remakes = Remakes(plans, functions, closed=closed)
        self._loose: dict[int, float] = {}
        self._went_at: dict[int, float] = {}
        """Time of the last loss of a replica of each value."""
        self._damaged: set[tuple[int, int]] = set()
        """Worker and value, for all that was damaged: the head may not have heard of it."""
        self._dropped_at: dict[tuple[int, int], float] = {}
        """When the head had a worker remove a value, by worker and value."""
        self._unheard: set[tuple[int, int, int]] = set()
        """Worker, value and attempt of the replicas of which the head will not hear."""
        self._gone_unheard: set[tuple[int, int]] = set()
        """Worker and value of the replicas that are gone, and that the head counts, as it has not heard so."""

    # --- interest ----------------------------------------------------------------------------------------------------

    def is_needed(self, value: int) -> bool:
        """Return True if somebody needs the bytes of a value."""
        return value in self._owned or self._is_awaited(value)

    def _is_awaited(self, value: int) -> bool:
        """Return True if a value is made again when it is lost."""
        return value in self._wanted or value in self._replicated or self.is_used(value)

    def is_used(self, value: int) -> bool:
        """Return True if a job that has not ended needs a value."""
        return any(self._is_open(job) for job in self._users.get(value, ()))

    def _is_open(self, job: int) -> bool:
        """Return True if a job has not ended, for all that the head knows."""
        if job in self._reviving:  # one that nothing needs any more is given up, and no client hears of it
            return self._is_awaited(job)
        return job not in self._outcome

    def added(self, value: int) -> None:
        """Record a value of the client's own."""
        self._known[value] = 1, set()
        self._owned.add(value)
        self._own.add(value)

    def own_freed(self, value: int) -> None:
        """Check that nothing needs a value of the client's own that it need not keep."""
        assert not self.is_needed(value), f"the client need not keep value {value}, and somebody needs it"
        self._own.remove(value)

    def needs(self, job: int, values: tuple[int, ...]) -> None:
        """Record what a job needs."""
        self._needs[job] = values
        for value in values:
            self._users.setdefault(value, set()).add(job)

    def takes_along(self, job: int, values: Sequence[int]) -> None:
        """Record that a job needs values of the client's own no more; check that the client still had them."""
        gone = set(values) - self._own
        assert not gone, f"job {job} is to take values {sorted(gone)} along, which the client has no more"
        self._needs[job] = tuple(value for value in self._needs[job] if value not in values)
        for value in values:
            self._users[value].discard(job)
            self._look_later(value)

    def has_needs(self, job: int) -> bool:
        """Return True if a job needs values at workers."""
        return job in self._needs

    def check_lost(self, value: int) -> None:
        """Check that a value which is given up as lost is nowhere."""
        workers = self._known[value][1] if value in self._known else ()
        assert not workers, f"value {value} is lost, and workers {sorted(workers)} have it"

    def let_go(self, value: int) -> None:
        """Record that the client refers to a value no more."""
        self._owned.discard(value)
        self._look_later(value)

    def ended(self, job: int) -> None:
        """Record that a job has its outcome."""
        for value in self._needs.get(job, ()):
            self._look_later(value)

    def _look_later(self, value: int) -> None:
        if not self.is_needed(value):
            self._loose[value] = self._clock.now
            self._clock.after(_QUIET_S, self._check_gone, value)

    def _check_gone(self, value: int) -> None:
        if self.trouble or self.is_needed(value) or value in self._reviving:
            return
        if self._clock.now < self._loose[value] + _QUIET_S:
            return  # it was needed again meanwhile
        for worker, store in self._stores.items():
            left = [attempt for held, attempt in store if held == value]
            running = any(value in self._needs.get(job, ()) for at, job in self._running if at == worker)
            coming = (value, worker) in self._copies  # it goes when it has come
            assert not left or running or coming, f"worker {worker} still has value {value}, which nobody needs"

    def wanted(self, value: int) -> None:
        """Record that the client wants a value."""
        self._wanted.add(value)

    def awaited(self, value: int) -> None:
        """Record that the client waits for replicas of a value."""
        self._replicated.add(value)

    def is_replicated(self, value: int) -> None:
        """Record that the client waits for replicas of a value no more."""
        self._replicated.discard(value)

    def lost(self, value: int) -> None:
        """Check that the client waited for a value that it hears is lost."""
        waits = value in self._wanted or value in self._replicated
        assert waits, f"the client hears that value {value} is lost, which it does not wait for"
        self._wanted.discard(value)
        self._replicated.discard(value)

    def answered(self, value: int) -> None:
        """Record that the client has a value it wanted, or hears that it is lost."""
        assert value in self._wanted, f"an answer came for value {value}, which nobody wants"
        self._wanted.discard(value)

    # --- for other records -------------------------------------------------------------------------------------------

    def holders(self, value: int) -> set[int]:
        """Return the workers that have a value, for all that the head has heard."""
        return self._known[value][1] if value in self._known else set()

    def attempt(self, value: int) -> int:
        """Return the attempt of a value that counts."""
        return self._known[value][0]

    def needed_at(self, worker: int) -> list[int]:
        """Return the values at a worker that somebody needs; those that were never damaged."""
        return [
            value
            for value, (_, workers) in self._known.items()
            if worker in workers and self.is_needed(value) and not self.was_damaged(value)
        ]

    def was_damaged(self, value: int) -> bool:
        """Return True if a replica of a value was damaged somewhere, of which the head may not have heard."""
        return any(damaged == value for _, damaged in self._damaged)

    def gone_unheard(self, worker: int) -> list[int]:
        """Return the values that a worker has no more, and of which the head believes that they are there."""
        return [value for at, value in self._gone_unheard if at == worker]

    def dropped_now(self, worker: int) -> list[int]:
        """Return the values that the head has a worker remove at this moment; it may have decided about jobs before."""
        return [value for (at, value), when in self._dropped_at.items() if (at, when) == (worker, self._clock.now)]

    def lives(self, worker: int) -> bool:
        """Return True for a worker that is not dead, whether the head knows it or not."""
        return worker in self._stores

    def is_coming(self, value: int) -> bool:
        """Return True if a copy of a value is under way."""
        return any(copied == value for copied, _ in self._copies)

    def inputs(self, job: int) -> tuple[int, ...]:
        """Return the values that a job needs."""
        return self._needs.get(job, ())

    def at(self, worker: int) -> list[int]:
        """Return the values at a worker, for all that the head has heard."""
        return [value for value, (_, workers) in self._known.items() if worker in workers]

    def needed_somewhere(self) -> list[int]:
        """Return the values that are needed and that some worker has, for all that the head has heard or believes."""
        return [value for value in self._known if self.is_counted(value) and self.is_needed(value)]

    def is_counted(self, value: int) -> bool:
        """Return True if the head believes that some worker has a value: it may not have heard that none has."""
        return bool(self.holders(value)) or any(gone == value for _, gone in self._gone_unheard)

    def coming_to(self, worker: int) -> list[int]:
        """Return the values that are copied to a worker."""
        return [value for value, target in self._copies if target == worker]

    def goes_in(self, worker: int) -> bool:
        """Return True if a copy goes to a worker."""
        return any(target == worker for _, target in self._copies)

    def goes_out(self, worker: int) -> bool:
        """Return True if a copy comes from a worker."""
        return any(copy.source == worker for copy in self._copies.values())

    # --- replicas ----------------------------------------------------------------------------------------------------

    def joined(self, worker: int) -> None:
        """Record a new worker."""
        self._stores[worker] = set()

    def gone(self, worker: int) -> None:
        """Record that the head has given up a worker, or that it has died."""
        for value, (_, workers) in self._known.items():
            if worker in workers:
                workers.discard(worker)
                self._went_at[value] = self._clock.now
        self._gone_unheard = {(at, value) for at, value in self._gone_unheard if at != worker}
        self._copies = {key: copy for key, copy in self._copies.items() if worker not in (key[1], copy.source)}

    def died(self, worker: int) -> None:
        """Record that a worker is dead, and its store with it."""
        self._stores.pop(worker, None)

    def made(self, worker: int, value: int, attempt: int) -> None:
        """Record that the head hears of a value that counts."""
        again = value in self._known
        self._known[value] = (attempt, set())
        self._gone_unheard = {(at, gone) for at, gone in self._gone_unheard if gone != value}
        self._count(worker, value, attempt)
        if value in self._reviving:
            self._made_again(value)
            self.ended(value)
        elif not again:
            self._owned.add(value)

    def _count(self, worker: int, value: int, attempt: int) -> None:
        """Record that the head hears of a replica of the attempt that counts."""
        if self._counts(worker, value, attempt):
            self._known[value][1].add(worker)
            self._gone_unheard.discard((worker, value))
        else:
            self._gone_unheard.add((worker, value))

    def _counts(self, worker: int, value: int, attempt: int) -> bool:
        """Return True if a replica of which the head hears counts. It may be damaged by now; and what a dead worker has
        sent arrives until the head gives that worker up.
        """
        if worker in self._stores:
            return (value, attempt) in self._stores[worker]
        return (worker, value) not in self._damaged

    def unmade(self, job: int) -> None:
        """Record that a job which made a value again has ended without one."""
        self._made_again(job)
        self.ended(job)

    def _made_again(self, value: int) -> None:
        """Record that no job makes a value again any more."""
        self._reviving.discard(value)
        self.remakes.end(value)

    def stored(self, worker: int, value: int, attempt: int) -> None:
        """Record that a worker has a value."""
        self._unheard.discard((worker, value, attempt))
        if worker in self._stores:
            self._stores[worker].add((value, attempt))

    def removed(self, worker: int, value: int, attempt: int) -> None:
        """Record that a worker has a value no more; check that no job there uses it."""
        if worker in self._stores:
            self._stores[worker].discard((value, attempt))
            used = self._openers(worker, value, attempt)
            again = any(held == value for held, _ in self._stores[worker])  # it was made again, and this is the old one
            assert again or not used, f"worker {worker} removed value {value}, which job {used} uses there"

    def _openers(self, worker: int, value: int, attempt: int) -> list[int]:
        """Return the jobs that run at a worker and have opened a replica there."""
        used = [job for (at, job), opened in self._running.items() if at == worker and (value, attempt) in opened]
        return [job for job in used if self._is_open(job)]

    def damaged(self, worker: int, value: int, attempt: int) -> None:
        """Record that a worker has a replica no more, because it is damaged or made way."""
        self._damaged.add((worker, value))
        self._went_at[value] = self._clock.now
        self._stores.get(worker, set()).discard((value, attempt))
        for (at, _), opened in self._running.items():
            if at == worker:
                opened.discard((value, attempt))  # what a job has mapped is not what comes to lie there in its place
        known = self._known.get(value)
        if known is not None and known[0] == attempt and worker in known[1]:
            known[1].remove(worker)
            self._gone_unheard.add((worker, value))

    def heard_gone(self, worker: int, value: int, attempt: int) -> None:
        """Record that the head hears that a worker has lost a replica. The worker may have another by now, which counts
        when the head hears of it.
        """
        known = self._known.get(value)
        if known is None or known[0] != attempt:
            return
        self._gone_unheard.discard((worker, value))
        if worker in known[1]:
            known[1].remove(worker)
            self._went_at[value] = self._clock.now

    def replicas_at(self, worker: int) -> set[tuple[int, int]]:
        """Return the values and attempts that a worker truly has."""
        return self._stores.get(worker, set())

    def is_used_at(self, worker: int, value: int) -> bool:
        """Return True if a job that runs at a worker uses a value there."""
        return any(at == worker and value in self._needs.get(job, ()) for at, job in self._running)

    def unheard(self, worker: int, value: int, attempt: int) -> None:
        """Record that the head will not hear of a replica, so that it may make way until another takes its place."""
        self._unheard.add((worker, value, attempt))

    def evicted(self, worker: int, value: int, attempt: int) -> None:
        """Check that a replica that makes way is not the last one of which the head hears, and that no job uses it
        there.
        """
        used = self._openers(worker, value, attempt)
        assert not used, f"worker {worker} gives up value {value}, which job {used} uses there"
        others = self.holders(value) - {worker}
        told_by = self._went_at.get(value, -_SILENT_S) + (_SILENT_S if self.trouble else _QUIET_S)
        removed = (worker, value) in self._dropped_at and worker not in self.holders(value)  # it has not heard so
        unknown = removed or (worker, value, attempt) in self._unheard
        excused = others or unknown or self._clock.now < told_by or not self.is_needed(value)
        assert excused, f"worker {worker} gives up value {value}, which is nowhere else"
        self.damaged(worker, value, attempt)

    def dropping(self, action: ReplicasDropped) -> None:
        """Check that no replica is removed that counts, of a value that somebody needs."""
        for value, attempt in zip(action.values, action.attempts, strict=True):
            known = self._known.get(value)
            if known is None or known[0] != attempt:
                continue
            users = [job for job in self._users.get(value, ()) if self._is_open(job)]
            assert not self.is_needed(value), f"value {value} is to be removed, and jobs {users} or others need it"
            known[1].discard(action.worker)
            self._gone_unheard.discard((action.worker, value))
            self._dropped_at[action.worker, value] = self._clock.now

    def copying(self, source: int, target: int, value: int, attempt: int, size: int) -> None:
        """Check a copy that is asked for."""
        known = self._known[value]
        assert known[0] == attempt, f"attempt {attempt} of value {value} is copied, and {known[0]} counts"
        assert (value, target) not in self._copies, f"value {value} is copied to worker {target} twice"
        if source == PROGRAM:
            self._check_own(value, target)
        self._copies[value, target] = _AskedCopy(source, attempt, _WHOLE if size >= _SMALL_BYTES else 1)
        for end, going in (("into", target), ("out of", source)):
            ends = [(to if end == "into" else copy.source, copy) for (_, to), copy in self._copies.items()]
            weights = [copy.weight for at, copy in ends if at == going]
            assert sum(weights) <= 2 * _WHOLE, f"{len(weights)} copies go {end} worker {going} at once"

    def _check_own(self, value: int, target: int) -> None:
        """Check that a value of the client's own may leave it."""
        words = f"value {value} leaves the client to worker {target}"
        assert value in self._own, f"{words}, which does not keep it"
        there = self._known[value][1]
        # Of a damaged replica the head may hear twice, the second time when another is there.
        assert not there or self.was_damaged(value), f"{words}, and workers {sorted(there)} have it"
        others = [to for (copied, to), copy in self._copies.items() if copied == value and copy.source == PROGRAM]
        assert not others, f"{words}, and to {others} already"

    def copied(self, target: int, value: int, attempt: int, *, whole: bool) -> None:
        """Record that the head hears how a copy has ended."""
        copy = self._copies.get((value, target))
        if copy is not None and copy.attempt == attempt:  # a copy of an older attempt ends none of a newer one
            del self._copies[value, target]
        known = self._known.get(value)
        if whole and known is not None and known[0] == attempt:
            self._count(target, value, attempt)
            self._made_again(value)  # it need not be, then
        self._look_later(value)

    def revived(self, value: int) -> None:
        """Check that a value may be made again."""
        attempt, workers = self._known[value]
        assert not workers, f"value {value} (attempt {attempt}) is made again, and workers {sorted(workers)} have it"
        assert self._functions[self._plans[value].fn].losses, f"value {value} is made again, and may not be"
        assert self._is_awaited(value), f"value {value} is made again, and nobody needs it"
        self._reviving.add(value)
        self.remakes.begin(value)

    def waits_for_ever(self, job: int, can_run: Callable[[int], bool]) -> bool:
        """Return True if a job needs a value that is to be made again, and no worker here could."""
        again = [value for value in self._needs.get(job, ()) if value in self._reviving]
        return any(not can_run(value) or self.waits_for_ever(value, can_run) for value in again)

    def is_reviving(self, job: int) -> bool:
        """Return True while a job makes a value again."""
        return job in self._reviving

    def assigned(self, worker: int, job: int, attempt: int) -> None:
        """Check that a job is sent to where all its inputs are, for all that the head can know."""
        self.remakes.assigned(worker, job, attempt)
        if worker not in self._stores:
            return  # it is dead, and the head cannot know yet
        for value in self._needs.get(job, ()):
            there = worker in self._known[value][1] or (worker, value) in self._damaged
            assert there, f"job {job} is sent to worker {worker}, which lacks its input {value}"

    # --- runs --------------------------------------------------------------------------------------------------------

    def began(self, worker: int, job: int) -> None:
        """Check that all inputs of a job are where it begins."""
        needs = self._needs.get(job, ())
        opened = {replica for replica in self._stores.get(worker, ()) if replica[0] in needs}
        lacks = set(needs) - {value for value, _ in opened}
        assert not lacks, f"job {job} begins on worker {worker}, which lacks its inputs {sorted(lacks)}"
        self._running[worker, job] = opened

    def stopped(self, worker: int, job: int) -> None:
        """Record that a job runs no more."""
        self._running.pop((worker, job), None)

    def check_rest(self, joined: list[int], known: int, can_run: Callable[[int], bool]) -> bool:
        """Check that nothing is left; `joined` are the workers that are connected, `known` values are at the head.
        Return False if something waits for a worker that may join.
        """
        waits = any(not can_run(value) for value in self._reviving if self._is_open(value))
        if waits or any(job not in self._outcome for job in self._plans):
            return False  # it waits for a worker that could run it, and its inputs with it
        assert not self._wanted, f"values {sorted(self._wanted)} are wanted, and nobody was told"
        reviving = [value for value in self._reviving if self._is_open(value)]
        assert not reviving, f"values {reviving} are made again for ever"
        for who, left in (("the client", self._owned), ("others", self._wanted)):
            assert not left, f"{who} needs values {sorted(left)} for ever"
        for worker in joined:
            assert not self._stores.get(worker), f"worker {worker} has {sorted(self._stores[worker])} left"
        assert not self._own, f"the client keeps values {sorted(self._own)} for ever"
        assert not self._copies, f"copies (value, worker) {sorted(self._copies)} have not ended"
        assert not known, f"the head believes that {known} values are needed"
        return True
