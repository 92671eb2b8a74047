"""What is likely a mistake is said at once: an offer of cores that are not there, a placeholder for a value."""

import logging
from typing import Any

import pytest

from grainlike import Cores, run
from grainlike.graph import delayed

LOGICAL = "are not of this machine: given out and shown, never pinned"


async def nothing() -> None:
    """Nothing."""


def test_cores_that_this_machine_does_not_have_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "grainlike"):
        run(nothing, local=Cores(5000))
    (record,) = [record for record in caplog.records if LOGICAL in record.getMessage()]
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("cores [")


def test_this_process_s_own_cores_are_not(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "grainlike"):
        run(nothing)
    assert not [record for record in caplog.records if LOGICAL in record.getMessage()]


def plain() -> Any:
    return delayed(len)("abc")


async def coroutine() -> Any:
    return delayed(len)("abc")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (plain, "write `async def plain(...)`, and `return await r_` in it"),
        (coroutine, "write `return await r_` in coroutine"),
    ],
)
def test_a_call_without_resources_that_returns_a_placeholder_says_so(function: Any, words: str) -> None:
    async def main() -> None:
        with pytest.raises(TypeError) as caught:
            await delayed(function)()
        said = f"{function.__name__} returned a placeholder (<Delayed len('abc'): lazy>), which is no value: {words}"
        assert str(caught.value) == said

    run(main, local=Cores(1))
