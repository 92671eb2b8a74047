"""Locks on the cores that leases use: there at once, and kept from one lease to the next."""

from __future__ import annotations

import anyio
import pytest

from grainlike.subprocesses import NoCoreLocks
from grainlike_worker.daemon._core_locks import UsedCores

pytestmark = pytest.mark.anyio


class Recorder(NoCoreLocks):
    def __init__(self) -> None:
        self.held: list[int] = []
        self.changed = anyio.Event()

    def hold(self, cores: int) -> None:
        self.held.append(cores)
        self.changed.set()

    async def next_change(self) -> None:
        self.changed = anyio.Event()
        await self.changed.wait()


async def test_a_core_is_locked_at_once_and_let_go_of_when_no_lease_has_taken_it_again() -> None:
    locks = Recorder()
    cores = UsedCores(locks, lingers=True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cores.run)
        for used in (0b01, 0b11, 0b10, 0b00, 0b01, 0b00):
            cores.use(used)
        assert locks.held == [0b01, 0b11], "what is locked is not locked again, nor let go of between two leases"
        await locks.next_change()
        assert locks.held == [0b01, 0b11, 0b00]
        cores.use(0b10)
        assert locks.held[-1] == 0b10
        tasks.cancel_scope.cancel()


async def test_a_core_that_is_used_again_stays_locked() -> None:
    locks = Recorder()
    cores = UsedCores(locks, lingers=True)
    for used in (0b11, 0b01, 0b11):
        cores.use(used)
    cores._let_go()
    assert locks.held == [0b11], "the cores of now count, not those that were used meanwhile"
    for used in (0b111, 0b011):
        cores.use(used)
    cores._let_go()
    assert locks.held == [0b11, 0b111, 0b011]


async def test_a_program_that_may_block_its_loop_lets_go_at_once() -> None:
    locks = Recorder()
    cores = UsedCores(locks, lingers=False)
    for used in (0b01, 0b11, 0b10, 0b00):
        cores.use(used)
    assert locks.held == [0b01, 0b11, 0b10, 0b00]
