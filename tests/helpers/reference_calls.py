"""Functions that the examples of the reference call: each takes what the examples give it."""

import os
import threading
from collections.abc import AsyncIterator
from typing import Any

from grainlike import delayed, result

__all__ = [
    "clean",
    "crash",
    "fail_oddly",
    "fetch",
    "fit",
    "follow",
    "half",
    "len_of",
    "merge",
    "plain",
    "relaxed",
    "square",
    "train",
    "zeros",
]


def plain(*given: Any, **named: Any) -> int:
    """Return a number that depends on nothing."""
    return 3


@delayed
def fit(*given: Any, **named: Any) -> int:
    """Stand for a call that takes anything."""
    return 3


@delayed
def merge(*given: Any, **named: Any) -> int:
    """Stand for a call that takes all that others gave."""
    return len(given)


@delayed
def train(data: Any) -> int:
    """Stand for a call that takes a GPU."""
    return 3


@delayed
def square(x: int) -> int:
    """Return a square."""
    return x * x


@delayed
def half(x: int) -> float:
    """Return a half."""
    return x / 2


@delayed
async def fetch(url: str) -> str:
    """Stand for a request."""
    return f"the page at {url}"


@delayed
def zeros(size: int) -> bytearray:
    """Return a value of so many bytes, all of them written."""
    return bytearray(b"\x01") * size


@delayed
def len_of(value: Any) -> int:
    """Return the length of a value."""
    return len(value)


@delayed
def crash() -> None:
    """End the process."""
    os._exit(1)


@delayed
def fail_oddly() -> None:
    """Raise an error that cannot be pickled."""
    raise LookupError("no way", threading.Lock())


@delayed
async def follow(path: str) -> AsyncIterator[str]:
    """Return some lines."""
    for number in range(3):
        yield f"{path}:{number}"


@delayed
def relaxed(x: int) -> Any:
    """Ask for a value of another call in the middle of a function that cannot await."""
    return result(square(x))


def clean(path: Any) -> str:
    """Stand for a job of a named graph."""
    return str(path)
