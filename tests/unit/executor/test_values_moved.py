"""Driver of values that stay: copies between workers and to the program, within the credit, or in shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from values_world import LARGE, SMALL, Peer, World, fetch

from grainlike.errors import SerializationError
from grainlike.head.values._credit import _ALL_BYTES, _TARGET_BYTES, _TURN_BYTES, _WINDOW_BYTES
from grainlike.payload import dump_value, load_value, memory_id
from grainlike.scheduler import (
    PROGRAM,
    FetchReplicas,
    GiveValues,
    ReplicasArrived,
    ReplicasDropped,
    ReplicasFailed,
    ReplicasGone,
    ValuesGiven,
)
from grainlike.wire import SendReplica, SpareReplicas
from grainlike_worker.store._replicas import WorkerReplicas, open_replicas


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_replica_is_copied_between_workers_within_the_credit(world: World) -> None:
    source, target = world.worker(), world.worker()
    size = source.holds(LARGE, 7)
    fetch(world, 7, size, source, target)
    most, there = 0, [world.mover.progress(2, 7)]
    while world.turn(source, target):
        most = max(most, world.under_way)
        there.append(world.mover.progress(2, 7))
    assert most == _WINDOW_BYTES
    assert there[:-1] == sorted(there[:-1])
    assert (there[0], there[-1]) == (0, 0)  # neither at first nor when it is over
    assert size - _WINDOW_BYTES <= max(there) < size
    assert world.told == [ReplicasArrived(2, [7], [1])]
    assert target.replicas.file(7, 1).read_bytes() == source.replicas.file(7, 1).read_bytes()
    assert (world.mover.moved, world.mover.relayed, world.mover.fetched) == (size, size, 0)
    assert world.at_rest()


def test_a_wanted_value_is_brought_here(world: World) -> None:
    source = world.worker()
    size = source.holds(LARGE, 7)
    world.act(GiveValues(1, [7], [1], [size]))
    world.settle(source)
    assert (load_value(world.given[7]) == LARGE).all()
    assert world.told == [ValuesGiven([7])]
    assert (world.mover.moved, world.mover.fetched) == (0, size)
    assert world.at_rest()


def test_many_copies_share_the_credit_and_small_ones_are_soon_done(world: World) -> None:
    source, targets = world.worker(), [world.worker() for _ in range(8)]
    size = source.holds(LARGE, 7)
    small = source.holds(SMALL, 8)
    for target in targets:
        fetch(world, 7, size, source, target)
    assert _ALL_BYTES <= world.under_way < _ALL_BYTES + len(targets) * _TURN_BYTES
    fetch(world, 8, small, source, targets[0])
    turns = 0
    while ReplicasArrived(targets[0].number, [8], [1]) not in world.told:
        assert world.turn(source, *targets)
        turns += 1
    assert len(world.told) == 1  # all that are large are under way still
    assert turns < 8
    world.settle(source, *targets)
    assert len(world.told) == 9
    assert world.at_rest()


def test_a_target_that_writes_nothing_holds_up_no_other(world: World) -> None:
    source, stuck, target = world.worker(), world.worker(), world.worker()
    size = source.holds(LARGE, 7)
    fetch(world, 7, size, source, stuck)
    fetch(world, 7, size, source, target)
    world.settle(source, target)
    assert world.told == [ReplicasArrived(3, [7], [1])]
    assert world.under_way == _WINDOW_BYTES
    assert sum(len(buffers) for _, buffers in stuck.down) == _WINDOW_BYTES // _TURN_BYTES


@pytest.mark.parametrize("stuck", [1, 2])
def test_targets_that_write_nothing_of_many_copies_hold_up_no_other(world: World, stuck: int) -> None:
    source, target, *others = (world.worker() for _ in range(2 + stuck))
    sizes = {number: source.holds(LARGE, number) for number in range(7, 11)}
    for other in others:
        for number, size in sizes.items():
            fetch(world, number, size, source, other)
    fetch(world, 7, sizes[7], source, target)
    while world.turn(source, target):
        assert world.under_way <= _ALL_BYTES + (1 + stuck) * _TURN_BYTES
    assert world.told == [ReplicasArrived(2, [7], [1])]
    world.settle(source, target, *others)
    assert len(world.told) == 1 + stuck * len(sizes)
    assert world.at_rest()


# --- shared memory ---------------------------------------------------------------------------------------------------


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[tuple[World, Peer, Peer]]:
    if not memory_id():
        pytest.skip("no shared memory in the file system")
    world = World(tmp_path, memory_id())
    with open_replicas() as one, open_replicas() as other:
        yield world, world.worker(one), world.worker(other)


def test_where_memory_is_shared_a_value_is_mapped_and_nothing_moves(shared: tuple[World, Peer, Peer]) -> None:
    world, source, _ = shared
    size = source.holds(LARGE, 7)
    world.act(GiveValues(1, [7], [1], [size]))
    value = load_value(world.given[7])
    assert (value == LARGE).all()
    value += 1
    assert not source.down
    source.replicas.drop([7], [1])
    assert value[0] == 1
    assert world.told == [ValuesGiven([7])]
    assert world.mover.fetched == 0


def test_values_that_come_together_are_told_of_together(shared: tuple[World, Peer, Peer]) -> None:
    world, source, _ = shared
    sizes = [source.holds(SMALL, value) for value in (7, 8, 9, 10)]
    source.replicas.file(9, 1).unlink()
    world.act(GiveValues(1, [7, 8, 9, 10], [1] * 4, sizes))
    assert list(world.given) == [7, 8, 10]
    assert world.told == [ValuesGiven([7, 8]), ReplicasGone(1, [9], [1]), ValuesGiven([10])]


def test_where_memory_is_shared_a_copy_is_another_name_for_the_file(shared: tuple[World, Peer, Peer]) -> None:
    world, source, target = shared
    size = source.holds(LARGE, 7)
    fetch(world, 7, size, source, target)
    assert world.told == [ReplicasArrived(2, [7], [1])]
    assert not source.down
    assert not target.down
    assert target.replicas.file(7, 1).samefile(source.replicas.file(7, 1))
    assert world.mover.moved == 0
    world.act(ReplicasDropped(1, [7], [1]))
    world.settle(source)
    assert not source.replicas.file(7, 1).exists()
    assert target.replicas.file(7, 1).exists()
    world.act(ReplicasDropped(2, [7], [1]))
    world.settle(target)
    assert not target.replicas.file(7, 1).exists()


def test_a_copy_that_was_whole_as_it_was_stopped_stays_where_another_name_is_made_for_it(
    shared: tuple[World, Peer, Peer],
) -> None:
    world, source, target = shared
    size = source.holds(LARGE, 7)
    target.holds(LARGE, 7)
    target.replicas.spare([7], [1], is_spare=True)
    fetch(world, 7, size, source, target)
    assert world.told == [ReplicasArrived(2, [7], [1])]
    assert [message for message, _ in target.down] == [SpareReplicas([7], [1], is_spare=False)]


def test_what_is_gone_from_shared_memory_is_told(shared: tuple[World, Peer, Peer]) -> None:
    world, source, target = shared
    fetch(world, 7, 100, source, target)
    assert world.told[:1] == [ReplicasGone(1, [7], [1])]
    assert isinstance(world.told[1], ReplicasFailed)
    world.told.clear()
    world.act(GiveValues(1, [7], [1], [100]))
    assert world.told == [ReplicasGone(1, [7], [1])]
    assert world.given == {}


def test_a_worker_hears_of_its_file_that_was_found_damaged_here_and_counts_it_no_more(
    shared: tuple[World, Peer, Peer],
) -> None:
    world, source, other = shared
    size = source.holds(LARGE, 7)
    source.holds(SMALL, 8)
    source.replicas.file(7, 1).write_bytes(b"x" * size)
    world.act(GiveValues(1, [7], [1], [size]))
    assert world.told == [ReplicasGone(1, [7], [1])]
    assert world.given == {}
    world.settle(source, other)
    assert not source.replicas.file(7, 1).exists()
    assert sorted(source.replicas.sizes) == [(8, 1)]


def test_a_directory_that_is_none_of_ours_is_not_read(tmp_path: Path) -> None:
    world = World(tmp_path, memory_id() or "nowhere")
    source = world.worker()  # it claims shared memory, and a directory elsewhere
    size = source.holds(SMALL, 7)
    world.act(GiveValues(1, [7], [1], [size]))
    assert world.given == {}
    assert [type(message) for message, _ in source.down] == [SendReplica]


def test_a_target_whose_directory_is_not_there_is_sent_the_bytes(shared: tuple[World, Peer, Peer]) -> None:
    world, source, target = shared
    size = source.holds(SMALL, 7)
    assert target.replicas.path is not None
    away = target.replicas.path.with_name("grainlike-store-away")
    target.replicas.path.rename(away)
    fetch(world, 7, size, source, target)
    away.rename(target.replicas.path)
    world.settle(source, target)
    assert world.told == [ReplicasArrived(2, [7], [1])]


# --- what goes wrong -------------------------------------------------------------------------------------------------


def test_a_replica_that_its_source_has_not_is_told_before_the_failure(world: World) -> None:
    source, target = world.worker(), world.worker()
    fetch(world, 7, 100, source, target)
    world.settle(source, target)
    gone, failed = world.told
    assert gone == ReplicasGone(1, [7], [1])
    assert isinstance(failed, ReplicasFailed)
    assert (failed.worker, failed.values, failed.attempts, failed.refused) == (2, [7], [1], False)
    assert "n1" in failed.why
    world.told.clear()
    world.act(GiveValues(1, [7], [1], [100]))
    world.settle(source)
    assert world.told == [ReplicasGone(1, [7], [1])]
    assert world.at_rest()


def test_a_target_without_room_is_told_and_keeps_nothing(world: World, tmp_path: Path) -> None:
    source, target = world.worker(), world.worker(WorkerReplicas(None))
    size = source.holds(LARGE, 7)
    fetch(world, 7, size, source, target)
    world.settle(source, target)
    [failed] = world.told
    assert isinstance(failed, ReplicasFailed)
    assert failed.refused
    assert "n2" in failed.why
    assert world.at_rest()


def test_a_damaged_replica_that_was_brought_here_is_gone(world: World) -> None:
    source = world.worker()
    size = source.holds(LARGE, 7)
    file = source.replicas.file(7, 1)
    file.write_bytes(b"x" + file.read_bytes()[1:])
    world.act(GiveValues(1, [7], [1], [size]))
    world.settle(source)
    assert world.given == {}
    assert world.told == [ReplicasGone(1, [7], [1])]
    assert world.at_rest()


def test_a_value_for_which_there_is_no_memory_here_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(size: int) -> None:
        raise MemoryError

    monkeypatch.setattr("grainlike.payload._replicas.mapped_memory", none)
    source = world.worker()
    world.act(GiveValues(1, [7], [1], [source.holds(SMALL, 7)]))
    with pytest.raises(SerializationError, match="no memory"):
        load_value(world.given[7])
    assert world.told == [ValuesGiven([7])]
    assert not source.down


def test_a_lost_source_or_target_ends_its_transfers_and_the_other_end_lets_go(world: World) -> None:
    one, other, third = world.worker(), world.worker(), world.worker()
    size = one.holds(LARGE, 7)
    other.holds(LARGE, 8)
    fetch(world, 7, size, one, third)
    fetch(world, 8, size, other, one)
    world.act(GiveValues(1, [7], [1], [size]))
    for _ in range(2):
        for peer in (one, other, third):
            world.step(peer)
    del world.state.peers[1]
    world.mover.left(one)
    assert world.told == []
    assert world.at_rest()
    world.settle(other, third)
    assert list(third.replicas.path.iterdir()) == []  # type: ignore[union-attr]
    assert not other.transfers._sends


@pytest.mark.parametrize("lost", ["source", "target"])
def test_of_copies_that_end_with_a_worker_none_gets_the_credit_of_another(world: World, lost: str) -> None:
    source, target = world.worker(), world.worker()
    for value in range(4):
        fetch(world, value, source.holds(LARGE, value), source, target)
    assert world.under_way == _TARGET_BYTES  # so others of them wait
    own = world.mover.own.add(9, dump_value(LARGE))
    world.act(FetchReplicas(target.number, [9], [1], [own], [PROGRAM]))
    gone, other = (source, target) if lost == "source" else (target, source)
    del world.state.peers[gone.number]
    world.mover.left(gone)
    assert all(transfer.source == PROGRAM for transfer in world.state.transfers.values())
    assert bool(world.state.transfers) == (lost == "source")
    world.settle(other)
    assert world.at_rest()


def test_dropping_what_is_on_its_way_stops_it_and_answers(world: World) -> None:
    source, target = world.worker(), world.worker()
    size = source.holds(LARGE, 7)
    fetch(world, 7, size, source, target)
    world.step(source)
    world.step(target)
    world.act(ReplicasDropped(2, [7], [1]))
    assert [type(event) for event in world.told] == [ReplicasFailed]
    world.settle(source, target)
    assert list(target.replicas.path.iterdir()) == []  # type: ignore[union-attr]
    assert world.at_rest()


def test_a_value_that_is_wanted_no_more_is_not_given(world: World) -> None:
    source = world.worker()
    size = source.holds(LARGE, 7)
    world.act(GiveValues(1, [7], [1], [size]))
    world.step(source)
    world.mover.unwant([7, 8])
    world.settle(source)
    assert world.given == {}
    assert world.told == [ValuesGiven([7, 8])]
    assert world.at_rest()


def test_what_had_come_and_is_not_handed_over_yet_may_be_unwanted_too(shared: tuple[World, Peer, Peer]) -> None:
    world, source, _ = shared
    world.mover.act(GiveValues(1, [7, 8], [1, 1], [source.holds(SMALL, 7), source.holds(SMALL, 8)]))
    world.mover.unwant([7])
    assert list(world.given) == [8]
    assert world.told == [ValuesGiven([8]), ValuesGiven([7])]


def test_a_later_order_takes_the_place_of_an_earlier_one(world: World) -> None:
    one, other, target = world.worker(), world.worker(), world.worker()
    size = one.holds(LARGE, 7)
    other.holds(LARGE, 7)
    fetch(world, 7, size, one, target)
    world.step(one)
    fetch(world, 7, size, other, target)
    world.settle(one, other, target)
    assert world.told == [ReplicasArrived(3, [7], [1])]
    assert world.at_rest()
