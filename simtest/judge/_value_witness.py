"""Part of the judge that sees what becomes of values, and has its records checked (`_value_records`)."""

from __future__ import annotations

from collections.abc import Sequence

from grainlike.scheduler import ReplicasDropped, ReplicasSpared
from grainlike.simulation import Witness
from simtest.judge._replica_records import ReplicaRecords
from simtest.judge._store_records import StoreRecords
from simtest.judge._stored_bytes import StoredBytes
from simtest.judge._value_records import ValueRecords

__all__ = ["ValueWitness"]


class ValueWitness(Witness):
    """Passes what happens to values on to `_values` and `_replicas`, which a subclass makes."""

    _values: ValueRecords
    _replicas: ReplicaRecords
    _room: StoreRecords
    _bytes: StoredBytes

    def needs(self, job: int, values: Sequence[int]) -> None:
        """Record which values a job needs."""
        self._values.needs(job, tuple(values))

    def added(self, value: int, size: int) -> None:
        """Record a value of the client's own."""
        super().added(value, size)
        self._values.added(value)
        self._room.added(value, size)

    def takes_along(self, job: int, values: Sequence[int]) -> None:
        """Check that no store could hold what a job needs that takes values of the client's own along."""
        super().takes_along(job, values)
        self._room.takes_along(job)
        self._values.takes_along(job, values)

    def own_freed(self, value: int) -> None:
        """Check that nothing needs a value of the client's own that it need not keep."""
        super().own_freed(value)
        self._values.own_freed(value)

    def let_go(self, value: int) -> None:
        """Record that the client refers to a value no more."""
        self._values.let_go(value)

    def wanted(self, value: int) -> None:
        """Record that the client wants a value."""
        self._values.wanted(value)

    def given(self, value: int) -> None:
        """Check that the client wanted what it is given."""
        super().given(value)
        self._values.answered(value)

    def value_lost(self, value: int) -> None:
        """Check that the client wanted a value that it hears is lost."""
        super().value_lost(value)
        self._replicas.lost(value)
        self._values.lost(value)

    def lacked_room(self, worker: int, job: int, attempt: int) -> None:
        """Record that the value of a job found no room."""
        super().lacked_room(worker, job, attempt)
        self._room.lacked(worker, job)

    def homeless(self, job: int) -> None:
        """Check that the value of a job that found no room could have some nowhere else."""
        super().homeless(job)
        self._room.homeless(job)

    def unpaid(self, job: int) -> None:
        """Check that a job which is given up for an overdraft waited for one, and long enough."""
        super().unpaid(job)
        self._room.unpaid(job)

    def made(self, worker: int, value: int, attempt: int) -> None:
        """Record a value that counts."""
        super().made(worker, value, attempt)
        self._values.made(worker, value, attempt)

    def revived(self, job: int) -> None:
        """Check that a value may be made again."""
        super().revived(job)
        self._values.revived(job)

    def leased(self, worker: int, job: int, attempt: int) -> None:
        """Record that the head hears that an attempt has its slots."""
        super().leased(worker, job, attempt)
        self._values.remakes.leased(worker, job, attempt)

    def copying(self, source: int, target: int, value: int, attempt: int, size: int, *, relayed: bool) -> None:
        """Check a copy that is asked for."""
        super().copying(source, target, value, attempt, size, relayed=relayed)
        self._values.copying(source, target, value, attempt, size)
        self._replicas.copying(source, target, value, relayed=relayed)
        self._room.copying(target, value)

    def copied(
        self, source: int, target: int, value: int, attempt: int, *, whole: bool, unreachable: bool = False
    ) -> None:
        """Record how a copy has ended."""
        super().copied(source, target, value, attempt, whole=whole, unreachable=unreachable)
        self._values.copied(target, value, attempt, whole=whole)
        self._replicas.copied(source, target, whole=whole, unreachable=unreachable)

    def replicating(self, value: int, copies: int) -> None:
        """Record that the client asks for replicas of a value."""
        super().replicating(value, copies)
        self._values.awaited(value)
        self._replicas.replicating(value, copies)

    def replicated(self, value: int) -> None:
        """Check that a value has the replicas of which the client hears."""
        super().replicated(value)
        self._values.is_replicated(value)
        self._replicas.replicated(value)

    def decided(self) -> None:
        """Check that replicas that are lacking are on their way."""
        super().decided()
        self._replicas.decided()
        self._room.decided()

    # --- workers -----------------------------------------------------------------------------------------------------

    def limited(self, worker: int, store: int, overdraft: int | None, scratch: int = 0) -> None:
        """Record how much a worker may keep, and may have beyond that."""
        super().limited(worker, store, overdraft, scratch)
        self._room.limited(worker, store, scratch)

    def exceeds(self, worker: int, over: int) -> None:
        """Record that the head hears by how much a worker exceeds what it may keep."""
        super().exceeds(worker, over)
        self._room.exceeds(worker, over)

    def serves(self, worker: int) -> None:
        """Record that a worker has a data server."""
        super().serves(worker)
        self._replicas.serves(worker)

    def suspected(self, worker: int) -> None:
        """Record that the head suspects a worker."""
        super().suspected(worker)
        self._values.trouble = True
        self._replicas.suspected(worker)

    def trusted(self, worker: int) -> None:
        """Record that the head trusts a worker again."""
        super().trusted(worker)
        self._replicas.trusted(worker)

    def leaving(self, worker: int) -> None:
        """Record that a worker has announced that it stops."""
        super().leaving(worker)
        self._replicas.leaving(worker)

    def draining(self, worker: int) -> None:
        """Record that a worker is to end when its jobs have."""
        super().draining(worker)
        self._replicas.draining(worker)

    def let_off(self, worker: int) -> None:
        """Check that a worker which drains may end."""
        super().let_off(worker)
        self._replicas.let_off(worker)

    def given_up(self, worker: int) -> None:
        """Record that the head has given up a worker."""
        super().given_up(worker)
        self._values.gone(worker)
        self._replicas.gone(worker)
        self._room.gone(worker)

    # --- what is stored ----------------------------------------------------------------------------------------------

    def dropping(self, action: ReplicasDropped) -> None:
        """Check that what is removed is not needed."""
        self._values.dropping(action)

    def stored(self, worker: int, value: int, attempt: int, *, is_output: bool) -> None:
        """Check that a worker has room for a value that it has."""
        self._values.stored(worker, value, attempt)
        self._bytes.stored(worker, value, attempt, is_output=is_output)

    def removed(self, worker: int, value: int, attempt: int) -> None:
        """Check that what a worker removes is not used there."""
        self._values.removed(worker, value, attempt)

    def damaged(self, worker: int, value: int, attempt: int) -> None:
        """Record a damaged value."""
        super().damaged(worker, value, attempt)
        self._values.damaged(worker, value, attempt)

    def heard_gone(self, worker: int, value: int, attempt: int) -> None:
        """Record that the head hears that a worker has lost a replica."""
        super().heard_gone(worker, value, attempt)
        self._values.heard_gone(worker, value, attempt)

    def sparing(self, action: ReplicasSpared) -> None:
        """Record what a worker is told of its replicas."""
        super().sparing(action)
        self._replicas.sparing(
            action.worker, list(zip(action.values, action.attempts, strict=True)), is_spare=action.is_spare
        )

    def unheard(self, worker: int, value: int, attempt: int) -> None:
        """Record that the head will not hear of a replica."""
        super().unheard(worker, value, attempt)
        self._values.unheard(worker, value, attempt)

    def evicted(self, worker: int, value: int, attempt: int) -> None:
        """Check that a replica which is given up is not the last one."""
        super().evicted(worker, value, attempt)
        self._values.evicted(worker, value, attempt)

    def is_used(self, worker: int, value: int) -> bool:
        """Return True if a job that runs at a worker uses a value there."""
        return self._values.is_used_at(worker, value)

    def is_reviving(self, job: int) -> bool:
        """Return True while a job makes a value again."""
        return self._values.is_reviving(job)
