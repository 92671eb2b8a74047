"""What a placeholder refuses, each time with the words to write instead."""

import asyncio
import gc
import math
import os
from typing import Any

import anyio
import numpy as np
import pytest
from limits import LIMIT_S

from grainlike import GraphError
from grainlike.graph import delayed, delayed_value, gather

R = delayed(len)("abc")


def _set_attribute() -> None:
    R.x = 1


def _delete_attribute() -> None:
    del R.x


def _iterate() -> None:
    for _ in R:
        pass


@pytest.mark.parametrize(
    ("attempt", "instead"),
    [
        (lambda: bool(R), "`if await r_:`"),
        (lambda: 1 if R else 2, "`if await r_:`"),
        (lambda: not R, "`if await r_:`"),
        (lambda: R == 3 and R, "`if await r_:`"),
        (lambda: 1 < R < 3, "`if await r_:`"),
        (lambda: R in [1, 2], "`if await r_:`"),
        (lambda: 1 in R, "`x in await r_`"),
        (lambda: len(R), r"`len\(await r_\)`, or @delayed\(nout=3\)"),
        (lambda: list(R), r"`for x in await r_:`, or @delayed\(nout=3\)"),
        (_iterate, r"`for x in await r_:`, or @delayed\(nout=3\)"),
        (lambda: reversed(R), r"`len\(await r_\)`"),
        (lambda: int(R), r"`int\(await r_\)`, or `delayed\(int\)\(r_\)`"),
        (lambda: float(R), r"`float\(await r_\)`"),
        (lambda: complex(R), r"`complex\(await r_\)`"),
        (lambda: math.sqrt(R), r"`delayed\(math.sqrt\)\(r_\)`"),
        (lambda: [1, 2][R], r"`items\[await r_\]`, or `delayed_value\(items\)\[r_\]`"),
        (lambda: range(R), r"`items\[await r_\]`"),
        (lambda: f"{R:.2f}", r"`format\(await r_, '.2f'\)`"),
        (_set_attribute, r"`r_ = delayed\(with_x\)\(r_, value\)`"),
        (_delete_attribute, r"`r_ = delayed\(without_x\)\(r_\)`"),
        (lambda: np.array(R), r"`np.array\(await r_\)`, or `delayed\(np.array\)\(r_\)`"),
        (lambda: np.asarray([R, R]), r"`np.array\(await r_\)`"),
        (lambda: bytes(R), r"`bytes\(await r_\)`, or `delayed\(bytes\)\(r_\)`"),
        (lambda: open(R), r"`open\(await r_\)`, or `delayed\(Path\)\(r_\)`"),  # noqa: PTH123, SIM115 - it is refused
        (lambda: os.fspath(R), r"`open\(await r_\)`"),  # from Python 3.12 on, pathlib puts words of its own there
        (lambda: list(R.keys()), r"`for x in await r_:`"),
        (lambda: np.float64(R), r"`float\(await r_\)`|`np.array\(await r_\)`"),
    ],
)
def test_it_says_what_to_write_instead(attempt: Any, instead: str) -> None:
    with pytest.raises(TypeError, match=instead):
        attempt()


@pytest.mark.parametrize("attempt", [lambda: dict(R), lambda: {**R}, lambda: delayed(len)(**R)])
def test_one_that_is_taken_for_a_mapping_says_what_to_write_instead(attempt: Any) -> None:
    # As by FastAPI, of a route that forgets its await. Python would hide a `TypeError` behind one of its own.
    with pytest.raises(GraphError, match=r"`dict\(await r_\)`; a function of a web framework returns `await r_`"):
        attempt()


async def asleep() -> None:
    """A coroutine that nobody awaits."""


@pytest.mark.filterwarnings("error")
def test_gather_refuses_coroutines_and_leaves_none_that_was_never_awaited() -> None:
    with pytest.raises(TypeError, match=r"not the coroutine asleep\(\): write `delayed\(asleep\)\(...\)`"):
        gather(R, asleep(), asleep())
    gc.collect()


def test_a_delayed_function_is_called_before_it_is_awaited() -> None:
    fn: Any = delayed(asleep)
    with pytest.raises(TypeError, match="`await asleep"):
        fn.__await__()


def test_it_is_no_future_that_calls_back() -> None:
    async def wait() -> None:
        with anyio.fail_after(LIMIT_S), pytest.raises(AttributeError, match=r"`asyncio.ensure_future\(r_\)`"):
            await asyncio.wait([R])  # type: ignore[type-var] # pyright: ignore[reportArgumentType, reportCallIssue]
        done, _ = await asyncio.wait([asyncio.ensure_future(delayed_value(3))])
        assert [task.result() for task in done] == [3]

    asyncio.run(wait())


def test_a_finished_placeholder_refuses_too() -> None:
    with pytest.raises(TypeError, match="await"):
        bool(delayed_value(True))


def test_format_without_a_format_is_the_repr() -> None:
    assert f"{R}" == str(R) == repr(R) == "<Delayed len('abc'): lazy>"
