"""Replicas of a worker: which files stay when jobs end one way or another, and copies to and from the head."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from replicas import at_once, replica_written

from grainlike.payload import Payload
from grainlike.resources import Cores, offer_of
from grainlike.scheduler import NodeScheduler
from grainlike.scheduler.store import Replica
from grainlike.wire import (
    GENERATION,
    Code,
    Completed,
    Fetched,
    Frame,
    Message,
    Pulled,
    PullReplica,
    Received,
    ReplicaCredit,
    ReplicaPart,
    Room,
    RoomIs,
    SendReplica,
    StopTransfer,
    Unsent,
)
from grainlike_worker.daemon._pulls import ReplicaPulls
from grainlike_worker.daemon._transfers import PART_BYTES, ReplicaTransfers
from grainlike_worker.store._limits import StoreLimits
from grainlike_worker.store._relay import StoreRelay
from grainlike_worker.store._replicas import UNLIMITED, StoreFull, WorkerReplicas, open_replicas

VALUE = Payload(b"stream", (bytes(range(256)) * 10_000,))


def ended(*rows: tuple[int, int, Code, int], gone: Sequence[int] = ()) -> Completed:
    jobs, attempts, codes, sizes = (list(column) for column in zip(*rows, strict=True))
    nothing = [0.0] * len(rows)
    columns = jobs, attempts, [int(code) for code in codes], nothing, nothing, nothing, [0] * len(rows)
    return Completed(1, *columns, [b""] * len(rows), [], 0.0, sizes=sizes, gone=list(gone))


@pytest.fixture
def replicas(tmp_path: Path) -> WorkerReplicas:
    return WorkerReplicas(tmp_path)


def written(replicas: WorkerReplicas, value: int, attempt: int = 1) -> int:
    return replica_written(replicas.file(value, attempt), VALUE)


def files(replicas: WorkerReplicas) -> list[str]:
    assert replicas.path is not None
    return sorted(path.name for path in replicas.path.iterdir())


# --- ends of jobs ----------------------------------------------------------------------------------------------------


def test_a_value_that_was_told_stays_until_it_is_dropped(replicas: WorkerReplicas) -> None:
    size = written(replicas, 7)
    replicas.ended(ended((7, 1, Code.SUCCEEDED, size)))
    replicas.only_told(ended((7, 1, Code.SUCCEEDED, size)))
    assert replicas.sizes == {(7, 1): size}
    assert files(replicas) == ["v7-1"]
    replicas.drop([7, 8], [1, 1])
    assert replicas.sizes == {}
    assert files(replicas) == []


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.SUCCEEDED])
def test_an_attempt_that_ends_without_a_value_leaves_no_file(replicas: WorkerReplicas, code: Code) -> None:
    written(replicas, 7)
    written(replicas, 7, 2)
    replicas.ended(ended((7, 1, code, 0), (7, 2, Code.SUCCEEDED, 5)))
    assert files(replicas) == ["v7-2"]


def test_a_row_that_is_told_later_is_left_alone(replicas: WorkerReplicas) -> None:
    written(replicas, 7, 1)
    replicas.ended(ended((7, 0, Code.RETURNED, 0)))
    assert files(replicas) == ["v7-1"]


def test_a_value_of_a_job_that_had_been_given_up_is_removed(replicas: WorkerReplicas) -> None:
    first, second = written(replicas, 7), written(replicas, 8)
    replicas.ended(ended((7, 1, Code.SUCCEEDED, first), (8, 0, Code.SUCCEEDED, 0)))
    replicas.only_told(ended((7, 1, Code.SUCCEEDED, first), (8, 1, Code.SUCCEEDED, second)))
    assert files(replicas) == ["v7-1"]


def test_what_an_overdue_job_writes_goes_with_its_runner(replicas: WorkerReplicas) -> None:
    replicas.ended(ended((7, 1, Code.TIMED_OUT, 0)))
    written(replicas, 7)
    replicas.runner_gone()
    assert files(replicas) == []


def test_a_replica_that_a_job_found_damaged_is_removed(replicas: WorkerReplicas) -> None:
    size = written(replicas, 7, 2)
    replicas.ended(ended((7, 2, Code.SUCCEEDED, size)))
    replicas.ended(ended((9, 1, Code.INPUT_GONE, 0), gone=[7]))
    assert replicas.sizes == {}
    assert files(replicas) == []


def test_a_worker_without_shared_memory_has_none() -> None:
    replicas = WorkerReplicas(None)
    replicas.ended(ended((7, 1, Code.FAILED, 0)))
    replicas.drop([7], [1])
    assert replicas.directory == ""


def test_the_directory_is_private_and_goes_with_all_in_it() -> None:
    with open_replicas() as replicas:
        if replicas.path is None:
            pytest.skip("no shared memory in the file system")
        written(replicas, 7)
        assert replicas.path.stat().st_mode & 0o777 == 0o700
    assert not replicas.path.exists()


# --- transfers -------------------------------------------------------------------------------------------------------


class Worker:
    """A worker's end of transfers, with what it has said."""

    def __init__(self, directory: Path, limits: StoreLimits = UNLIMITED) -> None:
        directory.mkdir()
        self.replicas = at_once(WorkerReplicas(directory, limits))
        self.said: list[tuple[Message, bytes]] = []
        self.orders: list[Message] = []
        """Messages that its data server was given."""
        data: Any = SimpleNamespace(post=self.orders.append)
        self.transfers = ReplicaTransfers(self.replicas, self._post, data)

    def _post(self, message: Message, buffers: Sequence[bytes | bytearray | memoryview]) -> None:
        self.said.append((message, b"".join(map(bytes, buffers))))

    def take(self) -> list[tuple[Message, bytes]]:
        """Return what it has said since the last time."""
        said, self.said = self.said, []
        return said

    def messages(self) -> list[Message]:
        return [message for message, _ in self.take()]


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(tmp_path / "source")
    worker.replicas.add(7, 1, written(worker.replicas, 7))
    yield worker
    worker.transfers.close()


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(tmp_path / "target")
    yield worker
    worker.transfers.close()


@pytest.fixture
def waiting(target: Worker) -> list[Callable[[], None]]:
    """Return what the target has begun in the background, of which nothing runs by itself."""
    calls: list[Callable[[], None]] = []
    run = target.replicas.start
    target.replicas.start = lambda *call: calls.append(lambda: run(*call))
    return calls


def size_of(worker: Worker) -> int:
    return worker.replicas.sizes[7, 1]


def test_parts_go_as_far_as_credit_does(source: Worker) -> None:
    size = size_of(source)
    source.transfers.hear(SendReplica(5, 7, 1, 0, PART_BYTES + 100))
    parts = source.take()
    assert [message for message, _ in parts] == [
        ReplicaPart(5, 7, 1, 0, size),
        ReplicaPart(5, 7, 1, PART_BYTES, size),
    ]
    source.transfers.hear(ReplicaCredit(5, 1 << 30))
    parts += source.take()
    assert b"".join(data for _, data in parts) == source.replicas.file(7, 1).read_bytes()
    source.transfers.hear(ReplicaCredit(5, 1 << 30))
    assert source.take() == []


def test_a_copy_is_whole_at_the_other_end(source: Worker, target: Worker) -> None:
    source.transfers.hear(SendReplica(5, 7, 1, 0, 1 << 30))
    parts = source.take()
    for message, data in parts:
        assert files(target.replicas) in ([], ["v7-1.1.part"])
        assert isinstance(message, ReplicaPart)
        target.transfers.hear(message, [data])
    credits_ = [ReplicaCredit(5, len(data)) for _, data in parts]
    assert target.messages() == [*credits_, Fetched(5, 7, 1)]
    assert target.replicas.file(7, 1).read_bytes() == source.replicas.file(7, 1).read_bytes()
    assert target.replicas.sizes == source.replicas.sizes
    assert files(target.replicas) == ["v7-1"]


def test_a_copy_goes_on_from_where_the_head_says(source: Worker, target: Worker) -> None:
    source.transfers.hear(SendReplica(5, 7, 1, 0, PART_BYTES))
    [(first, data)] = source.take()
    assert isinstance(first, ReplicaPart)
    target.transfers.hear(first, [data])
    source.transfers.link_returned()
    source.transfers.hear(ReplicaCredit(5, PART_BYTES))
    assert source.take() == []
    source.transfers.hear(SendReplica(GENERATION + 5, 7, 1, PART_BYTES - 1000, 1 << 30))
    for message, data in source.take():
        assert isinstance(message, ReplicaPart)
        assert message.transfer == GENERATION + 5
        target.transfers.hear(ReplicaPart(5, 7, 1, message.at, message.size), [data])
    assert target.messages()[-1] == Fetched(5, 7, 1)
    assert target.replicas.file(7, 1).read_bytes() == source.replicas.file(7, 1).read_bytes()


def test_parts_that_wait_for_room_come_again_with_another_link_and_are_counted_once(
    source: Worker, target: Worker, waiting: list[Callable[[], None]]
) -> None:
    source.transfers.hear(SendReplica(5, 7, 1, 0, 1 << 30))
    parts = source.take()
    for _ in range(2):
        target.transfers.link_returned()
        for message, data in parts:
            assert isinstance(message, ReplicaPart)
            target.transfers.hear(message, [data])
        assert target.take() == []
    (room_comes,) = waiting
    room_comes()
    assert target.messages() == [*(ReplicaCredit(5, len(data)) for _, data in parts), Fetched(5, 7, 1)]
    assert target.replicas.file(7, 1).read_bytes() == source.replicas.file(7, 1).read_bytes()


def test_parts_that_come_again_of_what_is_whole_change_nothing(source: Worker, target: Worker) -> None:
    source.transfers.hear(SendReplica(5, 7, 1, 0, 1 << 30))
    parts = source.take()
    for message, data in parts:
        assert isinstance(message, ReplicaPart)
        target.transfers.hear(message, [data])
    assert target.messages()[-1] == Fetched(5, 7, 1)
    target.transfers.link_returned()  # before the head has heard that
    message, data = parts[0]
    assert isinstance(message, ReplicaPart)
    target.transfers.hear(message, [data])
    assert target.take() == []
    assert files(target.replicas) == ["v7-1"]
    assert target.replicas.sizes == source.replicas.sizes


def test_a_later_demand_takes_the_place_of_an_earlier_one(source: Worker) -> None:
    source.transfers.hear(SendReplica(GENERATION + 5, 7, 1, 0, 100))
    source.transfers.hear(SendReplica(2 * GENERATION + 5, 7, 1, 0, 100))
    source.take()
    source.transfers.hear(ReplicaCredit(GENERATION + 5, 100))
    assert source.take() == []
    source.transfers.hear(ReplicaCredit(2 * GENERATION + 5, 100))
    assert source.messages() == [ReplicaPart(2 * GENERATION + 5, 7, 1, 100, size_of(source))]


def test_bytes_that_are_missing_end_a_copy(source: Worker, target: Worker) -> None:
    target.transfers.hear(ReplicaPart(5, 7, 1, 100, size_of(source)), [b"late"])
    [unsent] = target.messages()
    assert isinstance(unsent, Unsent)
    assert not unsent.gone
    assert "0 to 100 have not come" in unsent.why
    assert files(target.replicas) == []


def test_a_copy_that_is_stopped_leaves_nothing(source: Worker, target: Worker) -> None:
    source.transfers.hear(SendReplica(5, 7, 1, 0, 100))
    [(part, data)] = source.take()
    assert isinstance(part, ReplicaPart)
    target.transfers.hear(part, [data])
    assert files(target.replicas) == ["v7-1.1.part"]
    for worker in (source, target):
        worker.transfers.hear(StopTransfer(5))
    assert files(target.replicas) == []
    source.transfers.hear(ReplicaCredit(5, 100))
    assert source.take() == []


def relayed(target: Worker, size: int) -> None:
    target.transfers.hear(ReplicaPart(5, 7, 1, 0, size), [bytes(size)])


def pulled(target: Worker, size: int) -> None:
    target.transfers.hear(PullReplica(5, 7, 1, size, 0, "tcp://n1:7", bytes(16)))
    target.transfers.pulls.hear([Frame(Received(5, 0), ())])


@pytest.mark.parametrize("come", [relayed, pulled])
def test_a_copy_that_was_whole_as_the_head_stopped_it_makes_way_as_an_unfinished_one_does(
    tmp_path: Path, come: Callable[[Worker, int], None]
) -> None:
    target = Worker(tmp_path / "target", StoreLimits(1000))
    evicted: list[Replica] = []
    target.replicas.evicted = evicted.append
    come(target, 600)
    assert target.messages()[-1] == Fetched(5, 7, 1)

    async def ask() -> None:
        await target.replicas.room_for_copy(8, 1, 600)

    with pytest.raises(StoreFull):
        target.replicas.start(ask)
    target.transfers.hear(StopTransfer(4))
    with pytest.raises(StoreFull):
        target.replicas.start(ask)
    target.transfers.hear(StopTransfer(5))  # before the head hears that it is whole, and that changes nothing there
    assert files(target.replicas) == ["v7-1"]
    target.replicas.start(ask)
    assert evicted == [(7, 1)]
    assert list(target.replicas.rooms) == [(8, 1)]
    assert not target.replicas.file(7, 1).exists()


def test_of_the_last_copies_that_were_whole_so_many_are_known_as_may_be_on_their_way(target: Worker) -> None:
    fetched = target.transfers.pulls.fetched
    for transfer in range(1, 100):
        fetched.note(transfer, 7, transfer)
    assert [transfer for transfer in range(1, 100) if transfer in fetched] == list(range(36, 100))


def test_a_copy_that_is_stopped_before_it_asks_for_room_gets_none(
    source: Worker, target: Worker, waiting: list[Callable[[], None]]
) -> None:
    source.transfers.hear(SendReplica(5, 7, 1, 0, 100))
    [(part, data)] = source.take()
    assert isinstance(part, ReplicaPart)
    target.transfers.hear(part, [data])
    target.transfers.hear(StopTransfer(5))  # in the same turn
    target.replicas.drop([7], [1])
    waiting.pop()()
    assert not waiting
    assert files(target.replicas) == []
    assert target.replicas._scheduler.records.replicas == {}
    assert target.take() == []


@pytest.mark.parametrize("left", [0, 400])
def test_a_pull_that_is_stopped_before_it_asks_for_room_gets_none(
    target: Worker, waiting: list[Callable[[], None]], left: int
) -> None:
    orders: list[Message] = []
    data: Any = SimpleNamespace(post=orders.append)
    pulls = ReplicaPulls(target.replicas, target._post, data)
    order = PullReplica(1, 7, 1, 1000, 0, "tcp://n1:7", bytes(16))
    if left:
        pulls.begin(order)
        waiting.pop()()
        pulls.hear([Frame(Pulled([1], [left]), ())])
        pulls.stop(1)
    orders.clear()
    pulls.begin(replace(order, transfer=2, at=left))
    pulls.stop(2)
    waiting.pop()()
    assert not waiting
    assert orders == []
    assert target.replicas.left_off(7, 1) == left
    assert len(files(target.replicas)) == (1 if left else 0)
    target.replicas.drop([7], [1])
    assert files(target.replicas) == []


def test_a_job_that_ends_before_it_gets_room_gets_none(target: Worker, waiting: list[Callable[[], None]]) -> None:
    jobs = {7: object(), 8: object()}
    said: list[Message] = []
    relay = StoreRelay(target.replicas, said.append, NodeScheduler(offer_of(Cores(1), own_cores=[0])), jobs)
    for job in (7, 8):
        relay.give_room(Room(job, 1, 1000), said.append)
    del jobs[7]  # in the same turn
    target.replicas.ended(ended((7, 1, Code.FAILED, 0)))
    for room_comes in waiting:
        room_comes()
    assert said == [RoomIs(7, 1), RoomIs(8, 1, path=str(target.replicas.rooms[8, 1].path))]
    assert files(target.replicas) == ["v8-1.1.part"]


def test_where_there_is_no_room_nothing_is_left(target: Worker) -> None:
    target.transfers.hear(ReplicaPart(5, 7, 1, 0, 1 << 60), [b"first"])
    [unsent] = target.messages()
    assert isinstance(unsent, Unsent)
    assert "no room" in unsent.why
    assert files(target.replicas) == []


def test_a_replica_that_was_dropped_on_its_way_is_no_harm(source: Worker, target: Worker) -> None:
    source.transfers.hear(SendReplica(5, 7, 1, 0, 1 << 30))
    parts = source.take()
    for message, data in parts[:-1]:
        assert isinstance(message, ReplicaPart)
        target.transfers.hear(message, [data])
    target.replicas.drop([7], [1])
    target.take()
    message, data = parts[-1]
    assert isinstance(message, ReplicaPart)
    target.transfers.hear(message, [data])
    [unsent] = target.messages()
    assert isinstance(unsent, Unsent)
    assert files(target.replicas) == []


@pytest.mark.parametrize("harm", ["gone", "cut", "emptied", "none", "beyond"])
def test_a_replica_that_is_not_here_or_damaged_is_not_sent(source: Worker, harm: str) -> None:
    file = source.replicas.file(7, 1)
    value, at = 7, 0
    if harm == "gone":
        file.unlink()
    elif harm == "cut":
        file.write_bytes(file.read_bytes()[:-1])
    elif harm == "emptied":
        file.write_bytes(b"")
    elif harm == "none":
        value = 8
    else:
        at = size_of(source)
    source.transfers.hear(SendReplica(5, value, 1, at, 100))
    [unsent] = source.messages()
    assert isinstance(unsent, Unsent)
    assert unsent.gone
