"""Calls of the tests of values that are too large, for processes that import nothing else of the tests."""

from __future__ import annotations

import os

import numpy as np

from grainlike import Cores, SerializationError, delayed

__all__ = ["ask", "length", "make", "make_bytes", "measure"]


@delayed
def make(size):
    return np.ones(size, np.uint8)


@delayed
def make_bytes(size):
    return b"x" * size


@delayed
def length(value):
    return len(value)


@delayed
def measure(array):
    return array.nbytes, os.getpid()


@delayed
async def ask(size):
    """Give a job something that is that large, and tell what becomes of it."""
    try:
        return await (measure @ Cores(1))(np.ones(size, np.uint8))
    except SerializationError as error:
        return str(error)
