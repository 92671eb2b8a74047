"""Function calls as a measure of work: the same on every machine, busy or not, where seconds are not."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Count", "calls_of", "counted", "no_collector"]


class Count:
    """Calls of Python functions and of functions in C, counted as a profiler sees them."""

    def __init__(self) -> None:
        self.python = 0
        self.c = 0

    def __call__(self, frame: object, event: str, arg: object) -> None:
        if event == "call":
            self.python += 1
        elif event == "c_call":
            self.c += 1


@contextmanager
def counted() -> Iterator[Count]:
    """Count the calls of this thread in the block. The garbage collector's own come at any time, and are kept out."""
    count = Count()
    before = sys.getprofile()
    gc.disable()
    sys.setprofile(count)
    try:
        yield count
    finally:
        sys.setprofile(before)
        gc.enable()


def calls_of(work: Callable[[], object]) -> int:
    """Return the number of calls, in Python and C, that `work` makes in this thread."""
    with counted() as count:
        work()
    return count.python + count.c


@contextmanager
def no_collector() -> Iterator[None]:
    """Keep the garbage collector off in the block: what dies there was in no reference cycle."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
