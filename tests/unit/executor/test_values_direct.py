"""Copies between data servers, as the head drives them: who is asked for what, and how a failed one goes on."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from values_world import LARGE, Peer, World

from grainlike.errors import ProtocolError
from grainlike.head._shared_memory import ObjectStore
from grainlike.head._validation import check_data, check_frames
from grainlike.head.values._mover import ValueMover
from grainlike.payload import replica_name
from grainlike.scheduler import FetchReplicas, ReplicasArrived, ReplicasDropped, ReplicasFailed, ReplicasGone
from grainlike.wire import (
    DropReplicas,
    Fetched,
    Frame,
    Pulled,
    PullReplica,
    Received,
    ReplicaCredit,
    ReplicaPart,
    SendReplica,
    StopTransfer,
    Unsent,
)

SIZE = 12_000_192


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def source(world: World) -> Peer:
    peer = world.worker(has_data=True)
    assert peer.holds(LARGE, 7) == SIZE
    return peer


@pytest.fixture
def target(world: World, source: Peer) -> Peer:
    return world.worker(has_data=True)


def fetch(world: World, source: Peer, target: Peer, *, relayed: bool = False) -> None:
    world.act(FetchReplicas(target.number, [7], [1], [SIZE], [source.number], [relayed]))


def heard(peer: Peer) -> list[Any]:
    """Messages of the head to a worker, which takes them now."""
    said = [message for message, _ in peer.down]
    while peer.hear():
        pass
    return said


def says(world: World, peer: Peer, message: Any) -> None:
    """Let the worker's data server say something, and the head hear it."""
    peer.transfers.pulls.hear([Frame(message)])
    world.step(peer)


def arrives(world: World, source: Peer, target: Peer, transfer: int) -> None:
    Path(target.orders[-1].room).write_bytes(source.replicas.file(7, 1).read_bytes())
    says(world, target, Received(transfer, 0))


# --- the usual way ---------------------------------------------------------------------------------------------------


def test_the_target_is_told_where_and_by_which_name_and_the_source_nothing(
    world: World, source: Peer, target: Peer
) -> None:
    fetch(world, source, target)
    name = replica_name(bytes([1]) * 16, 7, 1)
    assert heard(target) == [PullReplica(1, 7, 1, SIZE, 0, "tcp://n1:7777", name)]
    (order,) = target.orders
    assert order.order == PullReplica(1, 7, 1, SIZE, 0, "tcp://n1:7777", name)
    assert Path(order.room).stat().st_size == SIZE
    says(world, target, Pulled([1], [4_000_000]))
    assert world.mover.progress(2, 7) == 4_000_000
    assert (world.mover.moved, world.told) == (4_000_000, [])
    arrives(world, source, target, 1)
    assert world.told == [ReplicasArrived(2, [7], [1])]
    assert (world.mover.moved, world.mover.relayed) == (SIZE, 0)
    assert target.replicas.sizes == {(7, 1): SIZE}
    assert world.mover.progress(2, 7) == 0
    assert not source.down
    assert world.at_rest()


@pytest.mark.parametrize("with_data", [(True, False), (False, True), (False, False)])
def test_where_either_has_no_data_server_a_copy_passes_the_head(world: World, with_data: tuple[bool, bool]) -> None:
    source, target = (world.worker(has_data=has) for has in with_data)
    source.holds(LARGE, 7)
    fetch(world, source, target)
    world.settle(source, target)
    assert world.told == [ReplicasArrived(2, [7], [1])]
    assert world.mover.relayed == SIZE


def test_what_the_scheduler_relays_passes_the_head(world: World, source: Peer, target: Peer) -> None:
    fetch(world, source, target, relayed=True)
    world.settle(source, target)
    assert world.mover.relayed == SIZE
    assert not target.orders


# --- failures --------------------------------------------------------------------------------------------------------


def test_a_copy_that_failed_goes_on_where_it_was_from_the_next_source(
    world: World, source: Peer, target: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    other = world.worker(has_data=True)
    other.holds(LARGE, 7)
    fetch(world, source, target)
    heard(target)
    says(world, target, Unsent(1, "no byte came", at=4_000_000, unreachable=True))
    (failed,) = world.told
    assert isinstance(failed, ReplicasFailed)
    assert (failed.worker, failed.unreachable, failed.refused) == (2, True, False)
    assert "n2: no byte came" in failed.why
    assert world.mover.moved == 4_000_000
    fetch(world, other, target)
    (order,) = heard(target)
    assert (order.at, order.address) == (4_000_000, "tcp://n3:7777")
    assert target.orders[-1].order == order
    world.told.clear()
    arrives(world, other, target, 2)
    assert world.told == [ReplicasArrived(2, [7], [1])]
    assert world.mover.moved == SIZE
    assert world.at_rest()


def test_a_copy_that_failed_goes_on_where_it_was_through_the_head(world: World, source: Peer, target: Peer) -> None:
    fetch(world, source, target)
    heard(target)
    at = 4_000_000
    part = Path(target.orders[-1].room)
    part.write_bytes(source.replicas.file(7, 1).read_bytes()[:at] + bytes(SIZE - at))
    says(world, target, Unsent(1, "no byte came", at=at, unreachable=True))
    world.told.clear()
    fetch(world, source, target, relayed=True)
    assert next(type(message) for message, _ in source.down) == SendReplica
    world.settle(source, target)
    assert world.told == [ReplicasArrived(2, [7], [1])]
    assert (world.mover.moved, world.mover.relayed) == (SIZE, SIZE - at)
    assert target.replicas.file(7, 1).read_bytes() == source.replicas.file(7, 1).read_bytes()
    assert world.at_rest()


def test_of_its_replicas_a_worker_speaks_alone(world: World, source: Peer, target: Peer) -> None:
    """A target that finds nothing may have been sent to the wrong place: the source is asked itself."""
    fetch(world, source, target)
    heard(target)
    says(world, target, Unsent(1, "it is not there", gone=True))
    assert world.told == []
    world.settle(source, target)
    assert world.told == [ReplicasArrived(2, [7], [1])]
    world.told.clear()
    source.replicas.file(7, 1).unlink()
    third = world.worker(has_data=True)
    fetch(world, source, third)
    heard(third)
    says(world, third, Unsent(3, "it is not there", gone=True))
    world.settle(source, third)
    gone, failed = world.told
    assert gone == ReplicasGone(1, [7], [1])
    assert isinstance(failed, ReplicasFailed)
    assert world.at_rest()


def test_one_warning_names_both_addresses(
    world: World, source: Peer, target: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(1, 4):
        fetch(world, source, target)
        heard(target)
        says(world, target, Unsent(number, "connection refused", unreachable=True))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    for words in ("n1", "n2", "tcp://n1:7777", "tcp://n2:7777", "connection refused"):
        assert words in record.getMessage()


def test_a_target_that_cannot_write_a_copy_refuses_it(world: World, source: Peer, target: Peer) -> None:
    fetch(world, source, target)
    heard(target)
    says(world, target, Unsent(1, "there is no room"))
    (failed,) = world.told
    assert isinstance(failed, ReplicasFailed)
    assert (failed.worker, failed.unreachable, failed.refused) == (2, False, True)


def test_a_worker_that_has_no_data_server_any_more_says_so(world: World, source: Peer, target: Peer) -> None:
    target.transfers.pulls._data = None
    fetch(world, source, target)
    world.step(target)
    (failed,) = world.told
    assert isinstance(failed, ReplicasFailed)
    assert failed.unreachable


def test_a_lost_source_ends_a_copy_and_the_next_goes_on(world: World, source: Peer, target: Peer) -> None:
    other = world.worker(has_data=True)
    other.holds(LARGE, 7)
    fetch(world, source, target)
    heard(target)
    says(world, target, Pulled([1], [5_000_000]))
    del world.state.peers[1]
    world.mover.left(source)
    assert world.told == []
    assert heard(target) == [StopTransfer(1)]
    assert target.orders[-1] == StopTransfer(1)
    fetch(world, other, target)
    assert heard(target)[0].at == 5_000_000
    says(world, target, Unsent(1, "it was stopped", at=6_000_000))  # of the one that is over
    assert world.told == []


@pytest.fixture
def other(world: World, source: Peer, target: Peer) -> Peer:
    """Another source. The copy from the first was whole as that was lost, and the head has heard of 5 MB."""
    peer = world.worker(has_data=True)
    peer.holds(LARGE, 7)
    fetch(world, source, target)
    heard(target)
    says(world, target, Pulled([1], [5_000_000]))
    Path(target.orders[-1].room).write_bytes(source.replicas.file(7, 1).read_bytes())
    target.transfers.pulls.hear([Frame(Received(1, 0))])
    assert [message for message, _ in target.up] == [Fetched(1, 7, 1)]
    del world.state.peers[1]
    world.mover.left(source)
    return peer


def test_a_copy_takes_the_place_of_a_whole_one_of_which_the_head_did_not_hear(
    world: World, target: Peer, other: Peer
) -> None:
    fetch(world, other, target)
    world.step(target)
    assert world.told == []
    assert not target.replicas.file(7, 1).exists()
    assert target.orders[-1].order.at == 0
    arrives(world, other, target, 2)
    assert world.told == [ReplicasArrived(2, [7], [1])]
    assert target.replicas.sizes == {(7, 1): SIZE}


def test_a_relayed_copy_that_is_to_go_on_where_there_is_a_whole_one_takes_its_place_at_the_second_try(
    world: World, target: Peer, other: Peer
) -> None:
    fetch(world, other, target, relayed=True)
    world.settle(other, target)
    assert [type(event) for event in world.told] == [ReplicasFailed]
    fetch(world, other, target, relayed=True)
    world.settle(other, target)
    assert world.told[1:] == [ReplicasArrived(2, [7], [1])]
    assert world.at_rest()


@pytest.mark.usefixtures("other")
def test_a_whole_replica_of_which_the_head_did_not_hear_goes_with_its_value(world: World, target: Peer) -> None:
    world.step(target)
    assert world.told == []
    assert target.replicas.file(7, 1).exists()
    world.mover.forget([7])
    world.step(target)
    assert not target.replicas.file(7, 1).exists()
    assert target.replicas.sizes == {}
    assert not world.state.begun


def test_a_lost_target_leaves_nothing_in_the_records(world: World, source: Peer, target: Peer) -> None:
    fetch(world, source, target)
    heard(target)
    says(world, target, Unsent(1, "cut", at=5_000_000, unreachable=True))
    fetch(world, source, target)
    del world.state.peers[2]
    world.mover.left(target)
    assert world.at_rest()
    assert not source.down


def test_what_has_come_of_a_value_that_nobody_needs_is_removed(world: World, source: Peer, target: Peer) -> None:
    fetch(world, source, target)
    heard(target)
    part = Path(target.orders[-1].room)
    says(world, target, Unsent(1, "cut", at=5_000_000, unreachable=True))
    world.mover.forget([6, 7])
    assert heard(target) == [DropReplicas([7], [1])]
    assert not part.exists()
    assert target.replicas.begun == {}
    assert world.at_rest()


@pytest.mark.parametrize("ends", ["unreachable", "source lost", "relayed in vain", "relayed and stopped"])
def test_a_copy_of_which_no_byte_has_come_leaves_no_room(world: World, source: Peer, target: Peer, ends: str) -> None:
    fetch(world, source, target)
    heard(target)
    part = Path(target.orders[-1].room)
    assert part.exists()
    if ends != "source lost":
        says(world, target, Unsent(1, "no byte came", unreachable=True))
    if ends == "relayed in vain":
        source.replicas.file(7, 1).unlink()
        fetch(world, source, target, relayed=True)
        world.settle(source, target)
    elif ends == "relayed and stopped":
        fetch(world, source, target, relayed=True)
    if ends in ("source lost", "relayed and stopped"):
        del world.state.peers[1]
        world.mover.left(source)
    heard(target)
    assert not part.exists()
    world.mover.forget([7])
    heard(target)
    assert not world.state.begun


def test_what_has_come_elsewhere_goes_with_the_replicas_of_a_value(world: World, source: Peer, target: Peer) -> None:
    fetch(world, source, target)
    heard(target)
    says(world, target, Unsent(1, "cut", at=5_000_000, unreachable=True))
    world.act(ReplicasDropped(1, [7], [2]))
    assert not target.down
    world.act(ReplicasDropped(1, [7], [1]))  # its lineage is kept, so it is not forgotten
    assert heard(target) == [DropReplicas([7], [1])]
    assert not world.state.begun


def test_what_has_come_is_remembered_where_the_program_of_a_value_has_left(
    world: World, source: Peer, target: Peer
) -> None:
    fetch(world, source, target)
    heard(target)
    says(world, target, Unsent(1, "no byte came", at=4_000_000, unreachable=True))
    assert target.replicas.left_off(7, 1) == 4_000_000
    world.act(FetchReplicas(target.number, [7], [1], [SIZE], [99]))  # a client that was one when this was said
    assert isinstance(world.told[-1], ReplicasFailed)
    world.mover.forget([7])
    world.settle(target)
    assert list(target.replicas.path.iterdir()) == []  # type: ignore[union-attr]


def test_dropping_what_is_on_its_way_stops_it_and_answers(world: World, source: Peer, target: Peer) -> None:
    fetch(world, source, target)
    heard(target)
    says(world, target, Pulled([1], [5_000_000]))
    world.act(ReplicasDropped(2, [7], [1]))
    assert [type(event) for event in world.told] == [ReplicasFailed]
    assert heard(target) == [StopTransfer(1), DropReplicas([7], [1])]
    assert target.replicas.begun == {}
    assert world.at_rest()
    says(world, target, Received(1, 0))  # it was just being finished
    assert not target.replicas.file(7, 1).exists()


def test_one_copy_takes_the_place_of_another_whichever_way_they_go(world: World, source: Peer, target: Peer) -> None:
    fetch(world, source, target)
    fetch(world, source, target, relayed=True)
    fetch(world, source, target)
    heard(target)
    heard(source)
    arrives(world, source, target, 3)
    world.settle(source, target)
    assert world.told == [ReplicasArrived(2, [7], [1])]
    assert world.at_rest()


# --- data servers and links that end ---------------------------------------------------------------------------------


def test_a_data_server_that_begins_goes_on_and_three_that_end_give_up(world: World, source: Peer, target: Peer) -> None:
    fetch(world, source, target)
    heard(target)
    pulls = target.transfers.pulls
    (order,) = pulls.pending()
    says(world, target, Pulled([1], [5_000_000]))
    assert pulls.pending() == [replace(order, order=replace(order.order, at=5_000_000))]
    pulls.pending()
    pulls.pending()
    assert pulls.busy
    assert pulls.pending() == []
    world.step(target)
    (failed,) = world.told
    assert isinstance(failed, ReplicasFailed)
    assert failed.unreachable
    fetch(world, source, target)
    assert heard(target)[0].at == 5_000_000


def test_links_that_break_hold_up_no_copy(world: World, source: Peer, target: Peer) -> None:
    fetch(world, source, target)
    for peer in (source, target):
        world.mover.broke(peer)
        world.mover.returned(peer)
    assert len(heard(target)) == 1
    arrives(world, source, target, 1)
    assert world.told == [ReplicasArrived(2, [7], [1])]


def test_a_head_that_is_made_again_knows_its_copies(world: World, source: Peer, target: Peer) -> None:
    fetch(world, source, target)
    heard(target)
    again = ValueMover(world.state, ObjectStore(), world.told.append)
    again.restore()
    world.mover = again
    assert again.progress(2, 7) == 0
    says(world, target, Pulled([1], [5_000_000]))
    assert again.progress(2, 7) == 5_000_000
    arrives(world, source, target, 1)
    assert world.told == [ReplicasArrived(2, [7], [1])]
    assert world.at_rest()


# --- what is not believed --------------------------------------------------------------------------------------------


def test_what_no_worker_may_say_of_a_copy_is_refused(world: World, source: Peer, target: Peer) -> None:
    fetch(world, source, target)
    for peer, message in (
        (source, Fetched(1, 7, 1)),
        (source, Unsent(1, "no")),
        (target, Unsent(1, "no", at=SIZE + 1)),
        (target, Unsent(1, "no", at=-1)),
        (target, ReplicaCredit(1, 1)),
        (target, ReplicaPart(1, 7, 1, 0, SIZE)),
    ):
        with pytest.raises(ProtocolError):
            world.mover.hear(peer, message)  # type: ignore[arg-type]
    for peer, at in ((source, 1), (target, SIZE + 1), (target, -1)):
        with pytest.raises(ProtocolError):
            world.mover.hear(peer, Pulled([1], [at]))
    world.mover.hear(target, Pulled([9], [1]))  # it is over
    with pytest.raises(ProtocolError):
        check_frames([Frame(Pulled([1, 2], [1]))], (), None)
    assert world.told == []


@pytest.mark.parametrize(
    "address",
    [
        "nonsense", "unix:///tmp/x", "tcp://0.0.0.0:7", "tcp://[::]:7", "tcp://n1:0", "tcp://n1:99999", "tcp://n\x1b[2J:7",
        "tcp://" + "n" * 500 + ":7", "tcp://[::1", "tcp://\ud800:7",
    ],
)  # fmt: skip
def test_an_address_that_is_none_is_refused_at_the_door(source: Peer, address: str) -> None:
    check_data(source.hello)
    check_data(replace(source.hello, data="", data_key=b""))
    with pytest.raises(ProtocolError):
        check_data(replace(source.hello, data=address))
    with pytest.raises(ProtocolError):
        check_data(replace(source.hello, data_key=b"short"))
