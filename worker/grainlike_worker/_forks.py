"""Telling a child that a job forked from the process that runs the job.

Such a child has copies of everything, an event loop too. If it comes back out of the job instead of ending, it must go
no further: it would answer for jobs, and take messages away from the process that it is a copy of.
"""

import os

__all__ = ["descent", "end_if_forked_since"]

_descent = [0]


def descent() -> int:
    """How many forks lie between this process and the one that imported this module."""
    return _descent[0]


def end_if_forked_since(then: int) -> None:
    """End this process, at once and with nothing run, if it was forked since `descent` told `then`."""
    if _descent[0] != then:
        os._exit(0)


def _count() -> None:
    _descent[0] += 1


os.register_at_fork(after_in_child=_count)
