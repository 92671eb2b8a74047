"""Files of a durable head around the moment at which it is told to leave its work to the next one."""

import anyio
import pytest

from grainlike.head.durable import _store
from grainlike.head.durable._clients import DurableClients
from grainlike.head.durable._head import DurableHead
from grainlike.head.durable._no_listener import NoListener
from grainlike.head.durable._records import StartsHeld, pack_input
from grainlike.head.durable._snapshot import began_here
from grainlike.head.durable._store import HeadStore
from grainlike.journal import Journal

pytestmark = pytest.mark.anyio


@pytest.fixture
def always_due(monkeypatch):
    """A snapshot is due at each look."""
    monkeypatch.setattr(_store, "LOOK_S", 0.0)
    monkeypatch.setattr(_store, "IMAGE_BYTES", 0)
    monkeypatch.setattr(_store, "IMAGE_TIMES", 0)


def opened(directory):
    store = HeadStore(directory, began_here(1))
    head = DurableHead(NoListener(), store.began, store.clock, lambda at: None)
    store.restore(head, DurableClients(head, "c1", bool, bool, lambda: None))
    return store


def reasons(directory):
    """Reasons of holds that are in the journal."""
    journal, found = Journal.open(directory)
    try:
        return [word for record in found.records for word in (b"before", b"after") if word in bytes(record)]
    finally:
        journal.close()


async def test_a_store_that_is_stopped_when_a_snapshot_is_due_writes_nothing_more(tmp_path, always_due):
    directory = tmp_path / "journal"
    store = opened(directory)
    store.append(pack_input(StartsHeld(0.0, "before")))
    async with anyio.create_task_group() as tasks:
        async with store._renewal:  # the turn between the look and the snapshot, held open
            tasks.start_soon(store.run)
            while not store._renewal.statistics().tasks_waiting:
                await anyio.lowlevel.checkpoint()
            store.stop()
        while store._renewal.statistics().locked:
            await anyio.lowlevel.checkpoint()
        store.append(pack_input(StartsHeld(0.0, "after")))
        tasks.cancel_scope.cancel()
    store.close()
    assert reasons(directory) == [b"before"]


async def test_a_store_that_runs_writes_records_beside_snapshots(tmp_path, always_due):
    directory = tmp_path / "journal"
    store = opened(directory)
    first = store._journal.segment_size
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(store.run)
        store.append(pack_input(StartsHeld(0.0, "before")))
        while not store._journal.image_size:
            await anyio.lowlevel.checkpoint()
        store.append(pack_input(StartsHeld(0.0, "after")))
        tasks.cancel_scope.cancel()
    assert store._journal.image_size >= first > 0
    store.close()
    assert b"after" in reasons(directory)
