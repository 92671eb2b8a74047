"""A call without resources whose coroutine is closed, as an event loop does at its end, has raised nothing itself."""

from types import SimpleNamespace
from typing import Any

import pytest

from grainlike.engine._local_calls import _in_time


class Forever:
    def __await__(self):
        while True:
            yield


async def waits(node: Any) -> None:
    await Forever()


async def clears_up(node: Any) -> None:
    try:
        await Forever()
    finally:
        node.left.append(True)


@pytest.mark.parametrize("call", [waits, clears_up])
def test_a_coroutine_that_is_closed_raises_no_error_of_its_own(call: Any) -> None:
    node: Any = SimpleNamespace(function=SimpleNamespace(options=SimpleNamespace(timeout=None)), left=[])
    attempt = _in_time(node, call)
    attempt.send(None)
    attempt.close()  # a RuntimeError would leave it here
    assert node.left == [True] * (call is clears_up)
