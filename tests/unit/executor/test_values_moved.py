"""Driver of values that stay: copies between workers and to the program, by real ends of transfers, over links that are
lists here, so that each message can be held, lost or repeated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from grainlike.errors import ProtocolError, SerializationError
from grainlike.head._peers import WorkerConnection
from grainlike.head._shared_memory import ObjectStore
from grainlike.head._state import HeadState
from grainlike.head._validation import check_frames
from grainlike.head.values._credit import _ALL_BYTES, _TURN_BYTES, _WINDOW_BYTES
from grainlike.head.values._mover import ValueMover
from grainlike.net import ClosedLink
from grainlike.payload import Payload, dump_value, load_value, memory_id, write_replica
from grainlike.resources import Cores
from grainlike.scheduler import (
    FetchReplicas,
    GiveValues,
    HeadEvent,
    HeadScheduler,
    ReplicasArrived,
    ReplicasDropped,
    ReplicasFailed,
    ReplicasGone,
    ValuesGiven,
)
from grainlike.wire import (
    GENERATION,
    PROTOCOL,
    Buffer,
    Completed,
    DropReplicas,
    Fetched,
    Frame,
    Hello,
    Message,
    ReplicaCredit,
    ReplicaPart,
    Report,
    SendReplica,
    StopTransfer,
    Unsent,
)
from grainlike_worker.daemon._replicas import WorkerReplicas, open_replicas
from grainlike_worker.daemon._transfers import ReplicaTransfers

Said = tuple[Message, Sequence[Buffer]]

OF_ONE_LINK = (SendReplica, ReplicaPart, ReplicaCredit)
"""Messages that are lost with the link on which they were sent."""


class Peer(WorkerConnection):
    """A worker: its end of transfers, and what is under way to it and from it."""

    def __init__(self, number: int, replicas: WorkerReplicas, memory: str) -> None:
        hello = Hello(
            "worker", PROTOCOL, PROTOCOL, "3", {}, f"n{number}", "i", 1, "cores=1", [], memory,
            replicas=replicas.directory,
        )  # fmt: skip
        super().__init__(number, f"n{number}", ClosedLink("", ""), hello, Cores([0]), 0.0)
        self.replicas = replicas
        self.transfers = ReplicaTransfers(replicas, self._say)
        self.down: deque[Said] = deque()
        self.up: deque[Said] = deque()
        self.away = False

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        if not (self.away and isinstance(message, OF_ONE_LINK)):
            self.down.append((message, buffers))

    def _say(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        self.up.append((message, buffers))

    def holds(self, value: object, number: int, attempt: int = 1) -> int:
        """Have a replica there; return its size."""
        size = write_replica(self.replicas.file(number, attempt), dump_value(value))
        assert size is not None
        self.replicas.add(number, attempt, size)
        return size

    def hear(self) -> bool:
        """Let the worker take one message; False if there is none."""
        if not self.down:
            return False
        message, buffers = self.down.popleft()
        if isinstance(message, DropReplicas):
            self.replicas.drop(message.values, message.attempts)
        else:
            assert isinstance(message, SendReplica | ReplicaCredit | ReplicaPart | StopTransfer)
            self.transfers.hear(message, buffers)
        return True


class World:
    """A head's mover and its workers."""

    def __init__(self, directory: Path, memory: str = "") -> None:
        self.state = HeadState(HeadScheduler(closed=False, seed=1), lambda event: None, 0.0)
        self.told: list[HeadEvent] = []
        self.given: dict[int, Payload] = {}
        self.mover = ValueMover(self.state, ObjectStore(), self.told.append)
        self.mover.given = self._given
        self._directory = directory
        self._memory = memory

    def _given(self, value: int, payload: Payload) -> None:
        assert value not in self.given
        self.given[value] = payload

    def worker(self, replicas: WorkerReplicas | None = None, memory: str | None = None) -> Peer:
        """A worker more."""
        number = len(self.state.peers) + 1
        if replicas is None:
            path = self._directory / f"n{number}"
            path.mkdir()
            replicas = WorkerReplicas(path)
        peer = Peer(number, replicas, self._memory if memory is None else memory)
        self.state.peers[number] = peer
        return peer

    def act(self, action: FetchReplicas | GiveValues | ReplicasDropped) -> None:
        self.mover.act(action)
        self.mover.flush()

    def step(self, peer: Peer) -> bool:
        """Let a worker take what is under way to it, then the head take what is under way from there."""
        moved = False
        while peer.hear():
            moved = True
        while peer.up:
            message, buffers = peer.up.popleft()
            assert isinstance(message, ReplicaPart | ReplicaCredit | Fetched | Unsent)
            self.mover.hear(peer, message, [bytes(buffer) for buffer in buffers])
            moved = True
        return moved

    def settle(self, *peers: Peer) -> None:
        """Until nothing is under way."""
        while self.turn(*peers):
            assert self.under_way <= _ALL_BYTES

    def turn(self, *peers: Peer) -> bool:
        """Let each of them take a step."""
        return sum(map(self.step, peers)) > 0

    @property
    def under_way(self) -> int:
        return self.mover._credit.under_way

    def at_rest(self) -> bool:
        return not self.state.transfers and not self.mover._by_target and not self.under_way


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


LARGE = np.arange(1_500_000, dtype=np.float64)  # 12 MB: more than a window
SMALL = np.arange(20_000, dtype=np.float64)


def fetch(world: World, value: int, size: int, source: Peer, target: Peer) -> None:
    world.act(FetchReplicas(target.number, [value], [1], [size], [source.number]))


def test_a_replica_is_copied_between_workers_within_the_credit(world: World) -> None:
    source, target = world.worker(), world.worker()
    size = source.holds(LARGE, 7)
    fetch(world, 7, size, source, target)
    most = 0
    while world.turn(source, target):
        most = max(most, world.under_way)
    assert most == _WINDOW_BYTES
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
    assert world.under_way == _ALL_BYTES
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


def test_what_is_gone_from_shared_memory_is_told(shared: tuple[World, Peer, Peer]) -> None:
    world, source, target = shared
    fetch(world, 7, 100, source, target)
    assert world.told[:1] == [ReplicasGone(1, [7], [1])]
    assert isinstance(world.told[1], ReplicasFailed)
    world.told.clear()
    world.act(GiveValues(1, [7], [1], [100]))
    assert world.told == [ReplicasGone(1, [7], [1])]
    assert world.given == {}


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
    assert (failed.worker, failed.values, failed.attempts) == (2, [7], [1])
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

    monkeypatch.setattr("grainlike.head.values._mover.mapped_memory", none)
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


# --- links that break ------------------------------------------------------------------------------------------------


def breaks(world: World, peer: Peer) -> None:
    """Lose what belongs to a link, and what the worker drops with it."""
    peer.down = deque(said for said in peer.down if not isinstance(said[0], OF_ONE_LINK))
    peer.up = deque(said for said in peer.up if not isinstance(said[0], OF_ONE_LINK))
    peer.away = True
    world.mover.broke(peer)


def returns(world: World, peer: Peer) -> None:
    peer.away = False
    peer.transfers.link_returned()
    world.mover.returned(peer)


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
    with pytest.raises(ProtocolError, match="size|Completed"):
        check_frames([Frame(Report(1.0, [], [told], [], []))], (), None)
    check_frames([Frame(Report(1.0, [], [replace(told, sizes=[0, 70_000])], [], []))], (), None)
