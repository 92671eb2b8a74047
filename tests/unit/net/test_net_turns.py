"""More has come than one turn of a loop should take: what is cheap goes first, and nobody waits for ever."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from grainlike.eventloop import _fairness, polling_of
from grainlike.eventloop._fairness import TURN_S, FairScheduler, fairness_of
from grainlike.net import ProtocolLink, _protocol
from grainlike.net._byte_link import READ_SIZE
from grainlike.wire import Beat, Frame, encode_frame

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Clock:
    """Seconds of work, which go on only when somebody works."""

    def __init__(self) -> None:
        self.now = 0.0

    def thread_time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(_protocol, "time", clock)
    monkeypatch.setattr(_fairness, "CROWD", 1)
    return clock


class Transport:
    """Remembers whether it reads."""

    def __init__(self) -> None:
        self.reading = True

    def set_write_buffer_limits(self, high: int) -> None:
        """Nothing is written here."""

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def abort(self) -> None:
        self.reading = False


class Peer:
    """A link that somebody runs, each of whose beats takes so many seconds; `log` is what is heard where."""

    def __init__(self, name: str, clock: Clock, seconds: float, log: list[tuple[str, int]]) -> None:
        self.transport = Transport()
        self.link = ProtocolLink(name)
        self.link.connection_made(self.transport)  # type: ignore[arg-type]
        self.link.trust()
        self._name, self._clock, self._seconds, self._log = name, clock, seconds, log
        self.task = asyncio.create_task(self.link.run(self._hear))

    def _hear(self, frames: list[Frame]) -> None:
        for message, _ in frames:
            assert isinstance(message, Beat)
            self._clock.now += self._seconds
            self._log.append((self._name, message.number))

    def says(self, *numbers: int) -> None:
        """Bytes come in, as far as the transport may read them."""
        assert self.transport.reading
        data = b"".join(bytes(piece) for number in numbers for piece in encode_frame(Beat(number)))
        room = self.link.get_buffer(-1)
        room[: len(data)] = data
        self.link.buffer_updated(len(data))


@pytest.fixture
async def crowd(clock: Clock) -> Iterator[tuple[list[Peer], list[tuple[str, int]]]]:
    log: list[tuple[str, int]] = []
    costs = {"dear": 2 * TURN_S, "cheap": 1e-5, "slow": TURN_S / 4}
    peers = [Peer(name, clock, seconds, log) for name, seconds in costs.items()]
    await asyncio.sleep(0)
    yield peers, log
    for peer in peers:
        peer.link.connection_lost(None)
        await peer.task


async def turn() -> None:
    """Two turns of the loop: what is called soon in the first is done in the second."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_the_cheap_go_before_those_who_came_first(crowd):
    (dear, cheap, slow), log = crowd
    cheap.says(1)
    slow.says(1)
    await turn()
    dear.says(1)  # takes all of this turn
    slow.says(2)
    cheap.says(2)
    assert log == [("cheap", 1), ("slow", 1), ("dear", 1)]
    await turn()
    assert log[3:] == [("cheap", 2), ("slow", 2)]


async def test_what_waits_longest_goes_in_each_turn_too(clock):
    fairness, order = FairScheduler(), list[str]()

    def work(name: str, seconds: float) -> None:
        order.append(name)
        fairness.spend(seconds)

    fairness.spend(TURN_S)
    fairness.wait(lambda: work("old and dear", TURN_S), TURN_S)
    for number in range(30):
        fairness.wait(lambda number=number: work(f"cheap {number}", TURN_S / 10), TURN_S / 10)
    await asyncio.sleep(0)
    assert order == [*(f"cheap {number}" for number in range(5)), "old and dear"]
    for _ in range(30):
        await asyncio.sleep(0)
    assert len(order) == 31
    assert order[-1] == "cheap 29"


async def test_who_is_read_late_is_read_whole_and_in_order(crowd):
    (dear, cheap, _), log = crowd
    dear.says(1)
    cheap.says(1, 2)
    assert not cheap.transport.reading
    await turn()
    cheap.says(3)
    assert [entry for entry in log if entry[0] == "cheap"] == [("cheap", 1), ("cheap", 2), ("cheap", 3)]


async def test_what_waited_when_the_link_was_lost_is_heard(crowd):
    (dear, cheap, _), log = crowd
    dear.says(1)
    cheap.says(1)
    cheap.link.connection_lost(None)
    assert log == [("dear", 1), ("cheap", 1)]


async def test_a_read_that_takes_long_is_followed_by_smaller_ones_and_by_others(crowd):
    (dear, _, _), _ = crowd
    dear.says(1)
    assert len(dear.link.get_buffer(-1)) == READ_SIZE // 2
    assert not dear.transport.reading
    await turn()
    assert dear.transport.reading


async def test_a_kind_that_has_taken_little_goes_before_many_that_were_cheap_until_now(crowd, clock):
    """What hundreds of workers report may be dear for all of them at once: a client's question waits for none."""
    (dear, cheap, slow), log = crowd
    for peer in (dear, cheap):
        peer.link.role = "worker"
    slow.link.role = "client"
    cheap.says(1)
    slow.says(1)
    await turn()
    dear.says(1)
    cheap.says(2)
    slow.says(2)
    await turn()
    assert log == [("cheap", 1), ("slow", 1), ("dear", 1), ("slow", 2), ("cheap", 2)]


async def test_what_a_kind_has_taken_is_forgotten(clock):
    fairness, order = FairScheduler(), list[str]()
    fairness.spend(TURN_S / 4, "worker")
    for _ in range(10):
        fairness.spend(0.0)
        await asyncio.sleep(0)
    fairness.spend(TURN_S / 8, "client")
    fairness.spend(TURN_S)
    fairness.wait(lambda: order.append("client"), 0.0, "client")
    fairness.wait(lambda: order.append("worker"), 0.0, "worker")
    await asyncio.sleep(0)
    assert order == ["worker", "client"]


async def test_messages_of_one_read_for_which_a_turn_has_no_time_wait_for_the_next(crowd, clock):
    (_, cheap, slow), log = crowd
    in_a_turn = _protocol._SLICE  # of a quarter of a turn each
    slow.says(*range(1, 2 * in_a_turn + 2))
    counts = [len(log)]
    cheap.says(1)
    while not slow.transport.reading:
        await asyncio.sleep(0)
        counts.append(len([entry for entry in log if entry[0] == "slow"]))
    assert sorted(set(counts)) == [in_a_turn, 2 * in_a_turn, 2 * in_a_turn + 1]
    assert log.index(("cheap", 1)) == in_a_turn
    assert [number for name, number in log if name == "slow"] == list(range(1, 2 * in_a_turn + 2))
    slow.says(100)
    assert log[-1] == ("slow", 100)


async def test_messages_that_waited_when_the_link_was_lost_are_heard(crowd):
    (_, _, slow), log = crowd
    slow.says(*range(1, 13))
    assert len(log) < 12
    slow.link.connection_lost(None)
    assert log == [("slow", number) for number in range(1, 13)]


async def test_what_fails_in_messages_that_waited_ends_the_link(crowd, monkeypatch):
    (_, _, slow), _ = crowd
    slow.says(*range(1, 13))
    monkeypatch.setattr(slow, "_log", None)  # so that hearing more raises
    await turn()
    assert "failed here: AttributeError" in slow.link.reason
    slow.link.connection_lost(None)
    with pytest.raises(AttributeError):
        await slow.task
    slow.task = asyncio.create_task(asyncio.sleep(0))


async def test_so_many_are_let_in_as_a_turn_has_time_for(clock):
    fairness = fairness_of(asyncio.get_running_loop())
    assert fairness is fairness_of(asyncio.get_running_loop())
    let_in = 0

    async def comes() -> None:
        nonlocal let_in
        fairness.spend(TURN_S)
        await fairness.room(TURN_S / 2)
        let_in += 1

    tasks = [asyncio.create_task(comes()) for _ in range(5)]
    await asyncio.sleep(0)
    tasks.pop(0).cancel()
    counts = []
    while let_in < 4:
        await asyncio.sleep(0)
        counts.append(let_in)
    assert [count for count in counts if count] == [2, 4]


async def test_nobody_waits_and_nothing_is_measured_where_there_are_few(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_fairness, "CROWD", 3)
    log: list[tuple[str, int]] = []
    peers = [Peer(name, clock, 2 * TURN_S, log) for name in ("a", "b")]
    await asyncio.sleep(0)
    for peer in peers:
        peer.says(1)
    few, read_on = list(log), [peer.transport.reading for peer in peers]
    peers.append(Peer("c", clock, 2 * TURN_S, log))
    await asyncio.sleep(0)
    for peer in peers:
        peer.says(2)
    many = log[2:]
    for peer in peers:
        peer.link.connection_lost(None)
        await peer.task
    assert few == [("a", 1), ("b", 1)]
    assert all(read_on)
    assert many == [("a", 2)]
    assert not fairness_of(asyncio.get_running_loop()).crowded


async def test_a_read_that_may_be_thousands_of_calls_is_handed_on_in_parts_also_where_there_are_few(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_fairness, "CROWD", 3)
    log: list[tuple[str, int]] = []
    peer = Peer("a", clock, 1e-3, log)
    await asyncio.sleep(0)
    each = sum(map(len, encode_frame(Beat(1))))
    numbers = range(1, _protocol._HEAVY // each + 2)
    peer.says(*numbers)
    counts = [len(log)]
    while not peer.transport.reading:
        await asyncio.sleep(0)
        counts.append(len(log))
    peer.link.connection_lost(None)
    await peer.task
    most = TURN_S / 1e-3 + _protocol._SLICE
    assert max(after - before for before, after in zip([0, *counts], counts, strict=False)) <= most
    assert log == [("a", number) for number in numbers]


async def test_a_loop_that_was_closed_is_kept_by_nobody() -> None:
    loop = asyncio.new_event_loop()
    assert fairness_of(loop) is fairness_of(loop)
    assert polling_of(loop) is polling_of(loop)
    loop.close()
    kept = weakref.ref(loop)
    del loop
    gc.collect()
    assert kept() is None
