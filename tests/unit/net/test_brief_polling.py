"""A loop polls for answers that come within microseconds, and sleeps where they take longer."""

import asyncio

import pytest

from grainlike.eventloop import Rhythm, _rhythm, _wakeup, polling_of
from grainlike.eventloop._rhythm import BRIEF_S
from grainlike.eventloop._wakeup import BriefPolling
from grainlike.net import ProtocolLink
from grainlike.wire import Beat, encode_frame

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Clock:
    """Time that goes on when a test says so, and by a microsecond with each yield of the processor."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.yields = 0

    def monotonic(self) -> float:
        return self.now

    def sched_yield(self) -> None:
        self.now += 1e-6
        self.yields += 1


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(_rhythm, "time", clock)
    monkeypatch.setattr(_wakeup, "time", clock)
    monkeypatch.setattr(_wakeup, "os", clock)
    return clock


def wait(rhythm: Rhythm, clock: Clock, seconds: float) -> None:
    rhythm.begin()
    clock.now += seconds
    rhythm.end()


async def test_after_some_brief_waits_the_next_is_polled_through(clock: Clock) -> None:
    rhythm = Rhythm()
    waits = 0
    while not rhythm.due:
        wait(rhythm, clock, 50e-6)
        rhythm.begin()
        waits += 1
    assert waits == 9
    assert rhythm.due == clock.now + BRIEF_S


@pytest.mark.parametrize("pause", [3600.0, 2 * BRIEF_S])
async def test_long_waits_are_slept_through(clock: Clock, pause: float) -> None:
    rhythm = Rhythm()
    for _ in range(30):
        wait(rhythm, clock, 10e-6)
    for _ in range(30):
        wait(rhythm, clock, pause)
    rhythm.begin()
    assert rhythm.due == 0.0


async def test_one_long_pause_is_forgotten_as_soon_as_the_longest(clock: Clock) -> None:
    rhythm = Rhythm()
    for _ in range(30):
        wait(rhythm, clock, 10e-6)
    wait(rhythm, clock, 3600.0)
    for _ in range(8):
        wait(rhythm, clock, 10e-6)
    rhythm.begin()
    assert rhythm.due > 0


async def test_a_wait_is_counted_from_what_was_sent_first(clock: Clock) -> None:
    rhythm = Rhythm()
    for _ in range(30):
        wait(rhythm, clock, 10e-6)
    rhythm.begin()
    begun = clock.now
    clock.now += 20e-6
    rhythm.begin()
    assert rhythm.due == begun + BRIEF_S
    rhythm.end()
    rhythm.end()  # without a wait
    rhythm.begin()
    assert rhythm.due == clock.now + BRIEF_S


async def test_a_loop_polls_until_the_moment_and_sleeps_then(clock: Clock) -> None:
    polling = polling_of(asyncio.get_running_loop())
    polling.poll(clock.now + 5.5e-6)
    polling.poll(clock.now + 5.5e-6)  # for a second link
    for _ in range(20):
        await asyncio.sleep(0)
    assert clock.yields == 6


async def test_a_loop_that_is_told_to_stop_polls_no_more(clock: Clock) -> None:
    polling = BriefPolling()
    polling.poll(clock.now + 1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    polls = clock.yields
    assert polls
    polling.stop()
    for _ in range(20):
        await asyncio.sleep(0)
    assert clock.yields == polls


class Transport:
    """Writes nothing, so that the answer comes when the test says so."""

    def __init__(self) -> None:
        self.written = 0

    def set_write_buffer_limits(self, high: int) -> None:
        """Nothing waits here."""

    def write(self, data: bytes) -> None:
        self.written += len(data)

    def resume_reading(self) -> None:
        """It never stops."""

    def abort(self) -> None:
        """It is gone."""


async def test_a_link_whose_answers_are_brief_keeps_its_loop_awake_until_the_answer(clock: Clock) -> None:
    link, transport = ProtocolLink("far"), Transport()
    link.connection_made(transport)  # type: ignore[arg-type]
    running = asyncio.create_task(link.run(lambda _: None))
    link.trust()
    await asyncio.sleep(0)

    async def trip() -> int:
        """Number of times that the loop polled for the answer."""
        before = clock.yields
        link.post(Beat(1))
        for _ in range(8):
            await asyncio.sleep(0)
        polls = clock.yields - before
        answer = b"".join(encode_frame(Beat(1)))
        link.get_buffer(-1)[: len(answer)] = answer
        link.buffer_updated(len(answer))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return polls

    polls = [await trip() for _ in range(12)]
    assert polls[0] == 0
    assert polls[-1] >= 5
    at_rest = clock.yields
    for _ in range(8):
        await asyncio.sleep(0)
    assert clock.yields == at_rest
    assert transport.written
    link.close()
    link.connection_lost(None)
    await running
