"""A loop that awaits the placeholders of a list one by one is hinted at, once."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterator

import pytest

from grainlike import Cores, Executor, delayed, delayed_value, gather, start
from grainlike.graph import _serial

pytestmark = pytest.mark.anyio


async def same(x):
    return x


job, call = delayed(same) @ Cores(1), delayed(same)


@pytest.fixture(autouse=True)
def never_hinted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_serial, "_site", _serial._AwaitSite())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


async def in_a_loop(rs):
    for r_ in rs:
        await r_


async def in_a_loop_over_a_dict(rs):
    named = dict(enumerate(rs))
    del rs
    for key, r_ in named.items():
        assert await r_ == key


async def in_a_comprehension(rs):
    return [await r_ for r_ in rs]


async def by_index(rs):
    for at in range(len(rs)):
        await rs[at]


@pytest.mark.parametrize("made", [job, call], ids=["job", "call"])
@pytest.mark.parametrize("loop", [in_a_loop, in_a_loop_over_a_dict, in_a_comprehension, by_index])
async def test_a_serial_loop_is_hinted_at_once(made, loop):
    async with Executor(local=Cores([0])):
        with pytest.warns(UserWarning, match=r"one by one.*write `await gather\(list\)`, or start\(r_\)") as caught:
            await loop([made(n) for n in range(4)])
        await loop([made(n) for n in range(4)])
        (warning,) = caught
        assert warning.filename == __file__
        first = loop.__code__.co_firstlineno
        assert first < warning.lineno <= first + 5


async def test_loops_that_are_not_serial_or_must_be_are_left_alone():
    async with Executor(local=Cores([0])):
        for n in range(10):
            assert await job(n) == n
        for n in range(10):
            r_ = job(n)
            assert await r_ == n
        await in_a_loop([start(job(n)) for n in range(10)])
        await in_a_loop([delayed_value(n) + 1 for n in range(10)])
        everything = [job(n) for n in range(10)]
        await gather(everything)
        await in_a_loop(everything)
        chain = [job(0)]
        for _ in range(10):
            chain.append(job(chain[-1]))
        await in_a_loop(chain)
        mixed = [job(0), start(job(1)), job(2)]
        await mixed[0]
        await mixed[2]


async def test_a_caller_may_make_it_an_error():
    async with Executor(local=Cores([0])):
        rs = [job(n) for n in range(4)]
        with pytest.raises(UserWarning, match="one by one"):
            await in_a_loop(rs)
        await gather(rs)


async def test_a_placeholder_may_be_awaited_by_what_is_no_coroutine():
    class Wrapped:
        def __init__(self, r_):
            self.r_ = r_

        def __await__(self):
            return self.r_.__await__()

    async with Executor(local=Cores([0])):
        for n in range(3):
            assert await Wrapped(job(n)) == n


async def test_what_was_looked_at_goes_when_its_variable_does():
    class Held:
        """Something that may be referred to weakly."""

    async with Executor(local=Cores([0])):
        held = Held()
        seen = weakref.ref(held)
        for _ in range(3):  # in one place, so this frame is looked at
            await job(1)
        del held
        assert seen() is None
