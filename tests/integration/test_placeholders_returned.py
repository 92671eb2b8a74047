"""A job that returns a placeholder, bare or inside another object, says how to get its value instead."""

from typing import Any

import pytest

from grainlike import Cores, Executor, SerializationError, delayed

pytestmark = pytest.mark.anyio

FIX = "was returned, which has no value yet: write `result(r_)` in its place, or in `async def` `await r_`"


async def twice(x: int) -> int:
    return 2 * x


def bare(x: int) -> Any:
    return delayed(twice)(x) + 1


def in_a_list(x: int) -> Any:
    return [delayed(twice)(x)]


async def of_a_coroutine(x: int) -> Any:
    return delayed(twice)(x)


async def item(x: int) -> Any:
    yield delayed(twice)(x)


@pytest.mark.parametrize(
    ("function", "place", "name"),
    [(bare, "", "+"), (in_a_list, ", at [0]", "twice"), (of_a_coroutine, "", "twice")],
)
@pytest.mark.parametrize("isolate", [False, True])
async def test_a_job_that_returns_a_placeholder_says_so_once(
    function: Any, place: str, name: str, isolate: bool
) -> None:
    async with Executor(local=Cores(1)):
        with pytest.raises(SerializationError) as caught:
            await (delayed(function, isolate=isolate) @ Cores(1))(3)
    assert str(caught.value) == f"the value of {function.__name__}{place}: a placeholder ({name}) {FIX}"
    told = caught.value.__cause__
    assert told is None or not isinstance(told, SerializationError)
    assert "".join(map(str, [told])).count("a placeholder") <= 1


async def test_a_stream_that_yields_one_does_too() -> None:
    async with Executor(local=Cores(1)):
        with pytest.raises(SerializationError, match=r"a placeholder \(twice\) was returned"):
            async for _ in (delayed(item) @ Cores(1))(3):
                pass  # never reached


async def test_one_that_a_job_is_given_in_a_closure_still_says_to_pass_it_as_an_argument() -> None:
    r_ = delayed(twice)(1)

    def uses() -> Any:
        return r_

    async with Executor(local=Cores(1)):
        with pytest.raises(SerializationError, match="in a closure or inside another object cannot travel: pass it as"):
            await (delayed(uses) @ Cores(1))()
