"""Calls of the tests of observers, and what surrounds them: a process imports this module, and nothing of the tests."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from grainlike import delayed

__all__ = ["MARK", "mark", "plain_variable", "square", "swallowing", "variable", "with_variable"]


@delayed
def square(x, offset=0):
    return x * x + offset


@delayed
def plain_variable(name):
    return os.environ.get(name)


@delayed
async def variable(name):
    return os.environ.get(name)


@contextmanager
def with_variable(text):
    os.environ["OBSERVED"] = text
    try:
        yield
    finally:
        del os.environ["OBSERVED"]


@contextmanager
def swallowing(text):
    with suppress(ValueError):
        yield


MARK = ContextVar("mark", default="none")


def mark():
    return MARK.get()
