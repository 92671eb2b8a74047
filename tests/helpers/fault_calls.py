"""Calls of the tests of faults: a process that runs one imports this module, and nothing of the tests."""

from __future__ import annotations

from grainlike import delayed

__all__ = ["one"]


@delayed
def one():
    return 1
