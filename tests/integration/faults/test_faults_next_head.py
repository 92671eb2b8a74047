"""A program that outlives its head: it waits for one at the start, and goes on with the next when one was replaced."""

import asyncio
import re
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from limits import LIMIT_S
from session_calls import square, stay
from waiting import until, until_called

from grainlike import Cores, Executor, HeadLostError, SessionError, cancel, connect, delayed, gather, info, start
from grainlike.client import _connection, _remote_head
from grainlike.graph import node_behind
from grainlike.net import HeadLocator, accesses_for, parse_address, publish_access, waits

LISTEN = "tcp://127.0.0.1:0"

pytestmark = pytest.mark.asyncio


@pytest.fixture(autouse=True)
def private_state(tmp_path, monkeypatch):
    """Access files of a test are its own, and heads are looked for often."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(_remote_head, "LOOK_S", 0.05)
    monkeypatch.setattr(_connection, "LEAVE_S", 0.1)


class Head:
    """A program that is a head, in a task of its own: its executor is not found by the tests' own calls."""

    async def __aenter__(self):
        self._ready, self._done = asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(self._live())
        await self._ready.wait()
        return self

    async def __aexit__(self, *_):
        self._done.set()
        await self._task

    async def _live(self):
        async with Executor(listen=LISTEN, local=Cores([0, 1])):
            self._ready.set()
            await self._done.wait()


@delayed
def says(value):
    print(value)
    return value


async def lines_of(executor, r_):
    return [str(line) async for line in executor.logs(r_)]


async def opened_by(gate):
    await gate.wait()
    return 1


async def test_a_head_is_waited_for_at_the_start(monkeypatch):
    connected = asyncio.Event()

    async def use():
        async with connect(wait=LIMIT_S):
            connected.set()
            return await (square @ Cores(1))(3)

    async with asyncio.timeout(LIMIT_S):
        looks = []
        monkeypatch.setattr(_connection, "waits", lambda: (looks.append(pause) or pause for pause in waits()))
        program = asyncio.create_task(use())
        await until_called(HeadLocator, "first", lambda: len(looks) >= 3)
        assert not connected.is_set()
        async with Head():
            assert await program == 9


@pytest.mark.parametrize("wait", [0, 0.2])
async def test_without_one_it_is_an_error_after_that_time(wait):
    with pytest.raises(HeadLostError, match="head start") as caught:
        async with connect(wait=wait):
            pass
    assert str(caught.value).startswith("no head came within 0.2 s: ") == bool(wait)


async def test_that_a_head_is_waited_for_is_logged_at_once_and_then_now_and_again(monkeypatch, caplog):
    monkeypatch.setattr(_connection, "REMIND_S", 0.1)
    with pytest.raises(HeadLostError):
        async with connect(wait=0.5):
            pass
    told = [record.getMessage() for record in caplog.records if "waiting for a head" in record.getMessage()]
    assert re.match("waiting for a head, for up to [01] s: .*head start", told[0])
    assert 2 <= len(told) <= 5  # the pauses between its looks double
    with pytest.raises(HeadLostError):
        async with connect():
            pass
    assert len([record for record in caplog.records if "waiting for a head" in record.getMessage()]) == len(told)


async def test_what_is_in_flight_fails_and_what_comes_after_goes_to_the_next_head():
    async with asyncio.timeout(LIMIT_S):
        first = Head()
        await first.__aenter__()
        async with connect(wait=LIMIT_S, reconnect=True) as ex:
            address = ex.address
            assert await (square @ Cores(1))(2) == 4
            events = ex.events()
            r_ = start((stay @ Cores(1))())
            while (await anext(events)).kind != "job_started":
                pass
            assert info(r_).state == "running"
            await first.__aexit__(None, None, None)
            with pytest.raises(HeadLostError):
                await r_
            held_ = start((square @ Cores(1))(3))
            forgotten_ = start((square @ Cores(1))(4))
            dropped = asyncio.create_task(asyncio.wait_for(forgotten_, 0.01))
            del forgotten_
            with pytest.raises(asyncio.TimeoutError):
                await dropped
            async with Head():
                assert await held_ == 9
                assert ex.address != address
                await ex.wait_for_workers(1)
                assert await (square @ Cores(1))(5) == 25
                assert (await ex.explain(held_)).state == "succeeded"
            # And a third, which finds a program that asks while there is none.
            waiting = asyncio.create_task(ex.wait_for_workers(1))
            later_ = start((square @ Cores(1))(6))
            async with Head():
                assert await later_ == 36
                await waiting


async def test_the_output_of_a_call_is_followed_from_before_there_is_a_head():
    async with asyncio.timeout(LIMIT_S):
        first = Head()
        await first.__aenter__()
        async with connect(wait=LIMIT_S, reconnect=True) as ex:
            await ex.wait_for_workers(1)
            await first.__aexit__(None, None, None)
            r_ = start((says @ Cores(1))((square @ Cores(1))(3)))
            unwanted_ = start((says @ Cores(1))(0))
            followed, ended = (asyncio.create_task(lines_of(ex, one_)) for one_ in (r_, unwanted_))
            await until_called(HeadLocator, "first", lambda: True)
            assert not followed.done()
            cancel(unwanted_)
            assert await ended == []
            async with Head():
                assert await followed == ["9"]
                assert info(r_).state == "succeeded"


async def test_the_output_of_a_call_at_a_lost_head_is_not_that_of_another_call_at_the_next():
    async with asyncio.timeout(LIMIT_S):
        first = Head()
        await first.__aenter__()
        async with connect(wait=LIMIT_S, reconnect=True) as ex:
            before_ = start((says @ Cores(1))("before"))
            assert await before_ == "before"
            assert await lines_of(ex, before_) == ["before"]
            await first.__aexit__(None, None, None)
            async with Head():
                after_ = start((says @ Cores(1))("after"))
                assert await after_ == "after"
                assert node_behind(after_).record.id == node_behind(before_).record.id
                with pytest.raises(HeadLostError, match="the head that had says is lost"):
                    await lines_of(ex, before_)
                assert await lines_of(ex, after_) == ["after"]


async def test_when_no_head_comes_in_time_calls_fail_until_one_is_there():
    async with asyncio.timeout(LIMIT_S):
        first = Head()
        await first.__aenter__()
        async with connect(wait=0.1, reconnect=True):
            assert await (square @ Cores(1))(2) == 4
            await first.__aexit__(None, None, None)
            held_ = (square @ Cores(1))(3)
            for late_ in (held_, (square @ Cores(1))(4)):
                with pytest.raises(HeadLostError) as caught:
                    await late_
                words = r"no head came within 0\.1 s: the head at \S+ said that it has closed"
                assert re.fullmatch(words, str(caught.value))
            async with Head():

                async def answered():
                    try:
                        return await (square @ Cores(1))(5) == 25
                    except HeadLostError:
                        return False

                await until(answered)  # that a head has been found is told to nobody


async def test_without_reconnect_a_lost_head_is_lost_for_good():
    async with asyncio.timeout(LIMIT_S):
        first = Head()
        await first.__aenter__()
        async with connect(wait=LIMIT_S) as ex:
            await first.__aexit__(None, None, None)
            with pytest.raises(HeadLostError):
                await (square @ Cores(1))(2)
            async with Head():
                with pytest.raises(HeadLostError):
                    await (square @ Cores(1))(2)
                with pytest.raises(HeadLostError):
                    await ex.wait_for_workers(1)


async def test_a_session_begins_anew_with_the_next_head():
    async with asyncio.timeout(LIMIT_S):
        first = Head()
        await first.__aenter__()
        async with connect(session="sweep", wait=LIMIT_S, reconnect=True) as ex:
            assert await ex.name("a", (square @ Cores(1))(2)) == 4
            with pytest.raises(SessionError, match="'a'"):
                ex.name("a", (square @ Cores(1))(2))
            await first.__aexit__(None, None, None)
            async with Head():
                assert await (square @ Cores(1))(3) == 9
                assert ex.placeholders() == {}
                assert await ex.name("a", (square @ Cores(1))(4)) == 16


@pytest.fixture
def between_heads(monkeypatch):
    """Context manager: a program with a session that has lost its head and does not find the next one; with an event
    that lets it find it.
    """

    @asynccontextmanager
    async def opened():
        async with AsyncExitStack() as first:
            await first.enter_async_context(Head())
            async with connect(session="sweep", wait=LIMIT_S, reconnect=True) as ex:
                await ex.name("old", (square @ Cores(1))(1))
                may_find, locator, looks = asyncio.Event(), ex._remote._locator, []

                def hidden():
                    looks.append(None)
                    if not may_find.is_set():
                        raise HeadLostError("none that it may find")
                    return locator()

                monkeypatch.setattr(ex._remote, "_locator", hidden)
                await first.aclose()
                await until(lambda: looks)
                yield ex, may_find

    return opened


async def test_names_given_between_heads_are_those_of_calls_that_go_to_the_next_head(between_heads):
    async with asyncio.timeout(LIMIT_S), between_heads() as (ex, may_find), Head():
        g_ = ex.name("g", (square @ Cores(1))(2))
        late_ = ex.name("late", (square @ Cores(1))(g_ + 1))  # sent once its inputs are there
        cancelled_ = ex.name("cancelled", (square @ Cores(1))(3))
        cancel(cancelled_)
        may_find.set()
        assert await g_ == 4
        assert ex.name("g", (square @ Cores(1))(2), exist_ok=True) is g_
        with pytest.raises(SessionError, match="'g'"):
            ex.name("g", (square @ Cores(1))(2))
        assert await late_ == 25
        assert ex.placeholders() == {"g": g_, "late": late_}
        assert await (square @ Cores(1))(6) == 36


@pytest.mark.parametrize("others", [False, True])
async def test_a_name_given_between_heads_that_the_session_has_at_the_next_head_fails_alone(between_heads, others):
    async with asyncio.timeout(LIMIT_S), between_heads() as (ex, may_find), Head():
        gate = asyncio.Event()
        g_ = ex.name("g", (square @ Cores(1))(2))
        late_ = ex.name("late", (square @ Cores(1))(delayed(opened_by)(gate)))  # sent once its inputs are there
        others_ = [ex.name("other", (square @ Cores(1))(3)), start((square @ Cores(1))(4))] if others else []
        async with connect(session="sweep") as earlier:
            assert await earlier.name("g", (square @ Cores(1))(5)) == 25
            assert await earlier.name("late", (square @ Cores(1))(6)) == 36
        may_find.set()
        with pytest.raises(SessionError, match="the session has something named 'g'"):
            await g_
        gate.set()
        with pytest.raises(SessionError, match="'late'"):
            await late_
        assert await gather(others_) == [9, 16][: len(others_)]
        assert await ex.name("g", (square @ Cores(1))(7), exist_ok=True) == 25
        await ex.forget("g")
        assert await ex.name("g", (square @ Cores(1))(7)) == 49


async def test_leaving_while_a_head_is_looked_for_ends():
    async with asyncio.timeout(LIMIT_S):
        first = Head()
        await first.__aenter__()
        async with connect(wait=LIMIT_S, reconnect=True):
            await first.__aexit__(None, None, None)
            held_ = start((square @ Cores(1))(3))
            await asyncio.sleep(0)
        assert info(held_).state in ("cancelled", "failed")


@pytest.mark.parametrize("option", ["wait", "patience"])
@pytest.mark.parametrize("value", [-1, float("nan"), True, "1"])
async def test_what_is_no_number_of_seconds_is_refused(option, value):
    with pytest.raises(ValueError, match=f"{option} is a number of seconds"):
        connect(**{option: value})


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "unix:///nowhere/head.sock"])
async def test_a_head_that_does_not_answer_is_an_error_of_ours(address):
    publish_access(accesses_for("gone", (parse_address(address),)))
    with pytest.raises(HeadLostError, match=f"nobody listens at {address}"):
        async with connect(insecure=True):
            pass
