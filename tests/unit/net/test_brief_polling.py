"""A loop polls for answers that come within microseconds, and sleeps where they take longer."""

import asyncio

import pytest

from grainlike.eventloop import LOOP_POLL_S, Rhythm, _rhythm, _wakeup, polling_of
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


def wait(rhythm: Rhythm, clock: Clock, seconds: float) -> float:
    """Send, and take what comes so much later."""
    rhythm.begin()
    clock.now += seconds
    return rhythm.next()


async def test_after_some_brief_waits_the_next_is_polled_through(clock: Clock) -> None:
    rhythm, waits = Rhythm(LOOP_POLL_S), 1
    while not wait(rhythm, clock, 50e-6):
        waits += 1
    assert waits == 8
    assert rhythm.begin() == clock.now + LOOP_POLL_S


@pytest.mark.parametrize("pause", [3600.0, 2 * LOOP_POLL_S])
async def test_long_waits_are_slept_through(clock: Clock, pause: float) -> None:
    rhythm = Rhythm(LOOP_POLL_S)
    for _ in range(30):
        wait(rhythm, clock, 10e-6)
    for _ in range(30):
        wait(rhythm, clock, pause)
    assert rhythm.begin() == 0.0


async def test_one_long_pause_is_forgotten_as_soon_as_the_longest(clock: Clock) -> None:
    rhythm = Rhythm(LOOP_POLL_S)
    for _ in range(30):
        wait(rhythm, clock, 10e-6)
    wait(rhythm, clock, 3600.0)
    for _ in range(8):
        wait(rhythm, clock, 10e-6)
    assert rhythm.begin() > 0


async def test_a_wait_is_counted_from_the_last_message_of_either_end(clock: Clock) -> None:
    rhythm = Rhythm(LOOP_POLL_S)
    for _ in range(30):
        rhythm.begin()
        clock.now += 0.9 * LOOP_POLL_S
        rhythm.begin()  # more is sent
        clock.now += 0.9 * LOOP_POLL_S
        rhythm.next()
        clock.now += 0.9 * LOOP_POLL_S
        polled = rhythm.next()  # and more comes
    assert polled == clock.now + LOOP_POLL_S


async def test_a_loop_polls_until_the_moment_and_sleeps_then(clock: Clock) -> None:
    polling = polling_of(asyncio.get_running_loop())
    polling.poll(clock.now + 5.5e-6)
    polling.poll(clock.now + 5.5e-6)  # for a second link
    for _ in range(20):
        await asyncio.sleep(0)
    assert clock.yields == 6


class Transport:
    """Writes nothing, so that the answer comes when the test says so."""

    def __init__(self) -> None:
        self.written = 0

    def set_write_buffer_limits(self, high: int) -> None:
        """Nothing waits here."""

    def write(self, data: bytes) -> None:
        self.written += len(data)

    def resume_reading(self) -> None:
        """Reading is never paused here."""

    def abort(self) -> None:
        """Nothing is left to drop."""


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
    clock.now += LOOP_POLL_S
    await asyncio.sleep(0)
    at_rest = clock.yields
    for _ in range(8):
        await asyncio.sleep(0)
    assert clock.yields == at_rest
    assert transport.written
    link.close()
    link.connection_lost(None)
    await running
