"""Copies of values over links that break, and what no worker may say of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from values_world import LARGE, SMALL, Peer, World, breaks, fetch, returns

from grainlike.errors import ProtocolError
from grainlike.head._shared_memory import ObjectStore
from grainlike.head._validation import check_frames
from grainlike.head.values._credit import _WINDOW_BYTES
from grainlike.head.values._mover import ValueMover
from grainlike.payload import load_value
from grainlike.scheduler import (
    GiveValues,
    ReplicasArrived,
)
from grainlike.wire import (
    GENERATION,
    Completed,
    Fetched,
    Frame,
    ReplicaCredit,
    ReplicaPart,
    Report,
    Unsent,
)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


# --- links that break ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["source", "target", "both"])
@pytest.mark.parametrize("turns", range(5))
def test_a_copy_goes_on_where_it_was_when_a_link_has_broken(world: World, which: str, turns: int) -> None:
    source, target = world.worker(), world.worker()
    size = source.holds(LARGE, 7)
    fetch(world, 7, size, source, target)
    for turn in range(turns):
        world.step(target if turn % 2 else source)
    broken = {"source": [source], "target": [target], "both": [source, target]}[which]
    for peer in broken:
        breaks(world, peer)
    if which == "target":
        world.step(source)  # it sends on, to nobody
        breaks(world, target)
    for peer in broken:
        returns(world, peer)
        if turns % 2:
            world.step(source)
    world.settle(source, target)
    assert world.told == [ReplicasArrived(2, [7], [1])]
    assert target.replicas.file(7, 1).read_bytes() == source.replicas.file(7, 1).read_bytes()
    assert world.mover.moved <= size + 2 * _WINDOW_BYTES
    assert world.at_rest()


def test_a_value_is_brought_here_over_links_that_break(world: World) -> None:
    source = world.worker()
    size = source.holds(LARGE, 7)
    world.act(GiveValues(1, [7], [1], [size]))
    for _ in range(3):
        source.hear()
        breaks(world, source)
        returns(world, source)
        source.hear()
        world.mover.hear(source, *source.up.popleft())  # type: ignore[arg-type]
    world.settle(source)
    assert (load_value(world.given[7]) == LARGE).all()
    assert world.mover.fetched == size
    assert world.at_rest()


def test_while_a_target_is_away_others_have_its_credit(world: World) -> None:
    source, *targets = (world.worker() for _ in range(6))
    size = source.holds(LARGE, 7)
    for target in targets:
        fetch(world, 7, size, source, target)
    for target in targets[:4]:
        breaks(world, target)
    world.settle(source, targets[4])
    assert world.told == [ReplicasArrived(targets[4].number, [7], [1])]


def test_a_head_that_is_made_again_begins_its_transfers_anew_when_workers_return(world: World) -> None:
    source, target = world.worker(), world.worker()
    size = source.holds(LARGE, 7)
    fetch(world, 7, size, source, target)
    for peer in (source, target, source):
        world.step(peer)
    again = ValueMover(world.state, ObjectStore(), world.told.append)
    again.restore()
    world.mover = again
    for peer in (source, target):
        breaks(world, peer)
        returns(world, peer)
    world.settle(source, target)
    assert world.told == [ReplicasArrived(2, [7], [1])]
    assert target.replicas.file(7, 1).read_bytes() == source.replicas.file(7, 1).read_bytes()
    assert world.at_rest()


# --- workers that say what they should not ---------------------------------------------------------------------------


def refused(world: World, peer: Peer, message: Any, *buffers: bytes) -> None:
    with pytest.raises(ProtocolError):
        world.mover.hear(peer, message, buffers)


def test_parts_that_nobody_asked_for_are_refused(world: World) -> None:
    source, target = world.worker(), world.worker()
    size = source.holds(LARGE, 7)
    fetch(world, 7, size, source, target)
    leg = GENERATION + 1
    for part in (
        ReplicaPart(0, 7, 1, 0, size),
        ReplicaPart(GENERATION + 2, 7, 1, 0, size),
        ReplicaPart(-1, 7, 1, 0, size),
        ReplicaPart(2 * GENERATION + 1, 7, 1, 0, size),
        ReplicaPart(leg, 8, 1, 0, size),
        ReplicaPart(leg, 7, 2, 0, size),
        ReplicaPart(leg, 7, 1, 1, size),
        ReplicaPart(leg, 7, 1, -1, size),
        ReplicaPart(leg, 7, 1, 0, size + 1),
    ):
        refused(world, source, part, b"bytes")
    good = ReplicaPart(leg, 7, 1, 0, size)
    refused(world, source, good)
    refused(world, source, good, b"")
    refused(world, source, good, b"one", b"two")
    refused(world, source, good, bytes(_WINDOW_BYTES + 1))
    refused(world, target, good, b"bytes")
    world.settle(source, target)
    assert world.told == [ReplicasArrived(2, [7], [1])]


def test_credit_and_answers_that_are_another_workers_are_refused(world: World) -> None:
    source, target, other = world.worker(), world.worker(), world.worker()
    size = source.holds(LARGE, 7)
    fetch(world, 7, size, source, target)
    refused(world, source, ReplicaCredit(1, 1))
    refused(world, target, ReplicaCredit(1, 1))  # nothing was sent there
    world.step(source)
    for credit in (0, -1, _WINDOW_BYTES + 1):
        refused(world, target, ReplicaCredit(1, credit))
    refused(world, source, Fetched(1, 7, 1))
    refused(world, other, Unsent(1, "nothing"))
    refused(world, other, Fetched(9, 7, 1))
    world.settle(source, target)
    assert world.told == [ReplicasArrived(2, [7], [1])]


def test_words_about_what_is_over_change_nothing(world: World) -> None:
    source, target = world.worker(), world.worker()
    size = source.holds(SMALL, 7)
    fetch(world, 7, size, source, target)
    world.settle(source, target)
    world.told.clear()
    for message in (
        ReplicaPart(GENERATION + 1, 7, 1, 0, size),
        ReplicaCredit(1, 5),
        Fetched(1, 7, 1),
        Unsent(1, "late", gone=True),
    ):
        world.mover.hear(source, message, [b"bytes"])
    assert world.told == []
    assert world.at_rest()


@pytest.mark.parametrize("sizes", [[1], [1, 2, 3], [0, -1], [0, 1 << 62]])
def test_sizes_that_cannot_be_are_refused_before_anything_follows(sizes: list[int]) -> None:
    times = [1.0, 1.0]
    told = Completed(1, [1, 2], [1, 1], [0, 0], times, times, times, [1, 1], [b"", b""], [], 1.0, sizes=sizes)
    with pytest.raises(ProtocolError, match=r"size|Completed"):
        check_frames([Frame(Report(1.0, [], [told], [], []))], (), None)
    check_frames([Frame(Report(1.0, [], [replace(told, sizes=[0, 70_000])], [], []))], (), None)
