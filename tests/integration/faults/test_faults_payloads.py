"""Arguments, results and exceptions that do not travel, and large ones that do: one clear answer each."""

import asyncio
import os
import threading

import pytest
from fault_calls import one
from free_slots import slots_are_free
from limits import LIMIT_S

from grainlike import (
    Cores,
    Executor,
    JobCancelledError,
    RemoteError,
    SerializationError,
    WorkerLostError,
    delayed,
    gather,
)

pytestmark = pytest.mark.asyncio


class Unpicklable:
    def __reduce__(self):
        raise TypeError("not me")


class BreaksOnArrival:
    def __reduce__(self):
        return _explode, ()


def _explode():
    raise ZeroDivisionError("on arrival")


@pytest.mark.parametrize("kind", ["plain", "coroutine", "local"])
async def test_an_exception_that_nobody_may_touch_fails_its_own_job_only(kind):
    def body(what):
        class RaisesAtEveryLook(Exception):
            def __getattribute__(self, name):
                raise ZeroDivisionError(name)

        class TakesNoNote(Exception):
            def __init__(self):
                self.__notes__ = 5

        class HidesItsTraceback(Exception):
            __cause__ = property(lambda self: 1 / 0)
            __traceback__ = property(lambda self: 1 / 0)

        raise {"look": RaisesAtEveryLook, "note": TakesNoNote, "traceback": HidesItsTraceback}[what]

    async def async_body(what):
        await asyncio.sleep(0)
        return body(what)

    fn = delayed(async_body if kind == "coroutine" else body)
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2)) as executor:
        for what in ("look", "note", "traceback"):
            with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is for its class to say
                await (fn if kind == "local" else fn @ Cores(1))(what)
            assert not issubclass(type(caught.value), (WorkerLostError, JobCancelledError))
        await slots_are_free(executor)


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
async def test_results_and_exceptions_that_do_not_travel_are_named(kind):
    def body(what):
        import threading

        class Local(Exception):
            def __reduce__(self):
                raise TypeError("not me")

        if what == "lock":
            return threading.Lock()
        if what == "error":
            raise Local("lost words")
        if what == "exit":
            raise SystemExit(3)
        if what == "interrupt":
            raise KeyboardInterrupt
        return what

    async def async_body(what):
        await asyncio.sleep(0)
        return body(what)

    fn = delayed(body if kind == "plain" else async_body)
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2)) as executor:
        with pytest.raises(SerializationError, match="lock"):
            await (fn @ Cores(1))("lock")
        with pytest.raises(RemoteError, match="lost words") as caught:
            await (fn @ Cores(1))("error")
        assert caught.value.type_name.endswith("Local")
        for what, name in (("exit", "SystemExit"), ("interrupt", "KeyboardInterrupt")):
            with pytest.raises(RemoteError, match=name):
                await (fn @ Cores(1))(what)
        await slots_are_free(executor)


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_an_exception_whose_pickling_interrupts_ends_no_runner(kind, tmp_path):
    begun = tmp_path / "begun"

    class Rude(Exception):
        def __reduce__(self):
            raise KeyboardInterrupt

    def body():
        with begun.open("a") as file:
            file.write("x")
        raise Rude("the reason")

    async def async_body():
        body()

    fn = delayed(body) if kind == "plain" else delayed(async_body, isolate=True)
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2)):
        with pytest.raises(RemoteError, match="the reason"):
            await (fn @ Cores(1))()
    assert begun.read_text() == "x"


async def test_a_result_that_breaks_on_arrival_is_that_jobs_error():
    pid = os.getpid()

    @delayed
    def broken():
        class Breaks:
            def __reduce__(self):
                return eval, (f"1 // 0 if __import__('os').getpid() == {pid} else None",)

        return Breaks()

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2)) as executor:
        with pytest.raises(SerializationError, match="ZeroDivisionError"):
            await (broken @ Cores(1))()
        await slots_are_free(executor)


async def test_an_argument_that_does_not_pickle_is_named_and_nothing_is_sent(monkeypatch):
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)) as executor:
        submitted = []
        scheduler = executor._service.head.state.scheduler
        handle = scheduler.handle
        monkeypatch.setattr(scheduler, "handle", lambda event, now: (submitted.append(event), handle(event, now))[1])
        with pytest.raises(SerializationError, match="argument 'key'"):
            await (delayed(lambda x, key: x) @ Cores(1))(1, key=[threading.Lock()])
        assert [type(event).__name__ for event in submitted if "Jobs" in type(event).__name__] == []


async def test_an_open_text_file_is_no_argument(tmp_path):
    """A copy of what it holds would come, as a file in memory: whoever writes to that writes to nothing."""
    path = tmp_path / "text"
    path.write_text("words")
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        with path.open("r+") as file, pytest.raises(SerializationError, match=r"argument 0 of .*send its path"):
            await (delayed(lambda file: file.read()) @ Cores(1))(file)


async def test_a_container_that_cannot_be_rebuilt_fails_its_own_call():
    @delayed
    async def unhashable():
        return []

    @delayed
    async def use(box):
        return box

    @delayed
    def plain_use(box):
        return box

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)) as executor:
        for fn in (use, plain_use, use @ Cores(1)):
            with pytest.raises(TypeError, match="unhashable"):
                await fn({unhashable()})
        assert await (one @ Cores(1))() == 1
        assert executor.is_open


@pytest.mark.parametrize("listen", [None, "tcp://127.0.0.1:0"])
async def test_large_results_come_whole(listen, start_worker):
    size = 110 * 1024 * 1024

    @delayed
    def large(size):
        return bytearray(size)

    @delayed
    async def large_coroutine(size):
        return bytes(size)

    local = None if listen else Cores(2)
    async with asyncio.timeout(LIMIT_S), Executor(local=local, listen=listen) as executor:
        if listen:
            start_worker(executor.address)
        first, second = await gather((large @ Cores(1))(size), (large_coroutine @ Cores(1))(size))
        assert (len(first), len(second)) == (size, size)
        await slots_are_free(executor)


async def test_many_jobs_of_many_buffers_come_whole():
    np = pytest.importorskip("numpy")

    @delayed
    async def many(arrays):
        return arrays

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2)):
        arrays = [np.zeros(1024) for _ in range(500)]
        for back in await gather((many @ Cores(1))(arrays) for _ in range(20)):
            assert len(back) == 500


@pytest.mark.parametrize("kind", [StopIteration, GeneratorExit])
@pytest.mark.parametrize("is_async", [False, True])
async def test_what_ends_an_iterator_comes_back_as_an_error_that_says_so(kind, is_async):
    def ends():
        raise kind("early")

    async def ends_in_loop():
        raise kind("early")

    async with Executor(local=Cores(1)):
        with pytest.raises(RuntimeError) as caught:
            await (delayed(ends_in_loop if is_async else ends) @ Cores(1))()
    assert kind.__name__ in str(caught.value)
    assert any("attempt 1 of ends" in note for note in caught.value.__notes__)
