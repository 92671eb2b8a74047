"""The number of the running job in this process's environment, for the programs that it starts.

On Linux the entry is memory of this process, in which each job's number is written over the last: the C library's
`setenv` looks for its value among all that there ever were, and keeps a copy of each for good. Per job that took 550 ns
and 64 bytes, a tenth of what a job of a run-list takes.
"""

import os
import sys
from collections.abc import Callable
from functools import partial
from struct import Struct

__all__ = ["hide_job", "show_job"]

_NAME = b"GRAINLIKE_JOB"
_DIGITS = Struct("24s")
"""Any number, and zeros behind it, of which the first ends the text."""

_MOST_SHARED = 9
"""Python has but one object for each text of one digit, so an entry that a job has made again looks like ours."""

_environment: dict[bytes, bytes] = vars(os.environ)["_data"]
"""The bytes behind the mapping: each job passes here."""


class _Entry:
    """The entry of the environment. It is entered again where the last number is not what is found in `os.environ`."""

    __slots__ = ("_digits", "_enter", "_shown")

    def __init__(self) -> None:
        self._shown: bytes | None = None
        """What was put into `os.environ` last, if it can be told from an equal one that a job has put there."""
        self._digits: memoryview | None = None
        self._enter: Callable[[], object] | None = None

    def show(self, number: int) -> None:
        """Put this number into the entry."""
        value = b"%d" % number
        if self._digits is None or _NAME not in _environment or _environment[_NAME] is not self._shown:
            self._begin(value)
        else:
            _DIGITS.pack_into(self._digits, 0, value)
        _environment[_NAME] = value
        self._shown = value if number > _MOST_SHARED else None

    def _begin(self, value: bytes) -> None:
        """Enter a number for the first time, or after a job has changed the entry."""
        if self._enter is None:
            self._digits, self._enter = _own_entry()
        if self._digits is None:
            os.putenv(_NAME, value)
            return
        _DIGITS.pack_into(self._digits, 0, value)
        self._enter()


def _own_entry() -> tuple[memoryview | None, Callable[[], object]]:
    """Return the memory of the entry's digits, and what makes it an entry of the environment; None where the C library
    has to keep it.
    """
    if sys.platform != "linux":
        return None, _no_entry
    try:
        import ctypes

        libc = ctypes.CDLL(None)
        calloc, putenv = libc.calloc, libc.putenv
    except (ImportError, OSError, AttributeError):  # a Python without it, or that is one static program
        return None, _no_entry
    calloc.argtypes, calloc.restype = (ctypes.c_size_t, ctypes.c_size_t), ctypes.c_void_p
    putenv.argtypes = (ctypes.c_void_p,)
    before = _NAME + b"="
    size = len(before) + _DIGITS.size
    address = calloc(1, size)  # never freed: the environment is read until the very end of a process
    if not address:
        raise MemoryError
    entry = memoryview((ctypes.c_char * size).from_address(address)).cast("B")
    entry[: len(before)] = before
    return entry[len(before) :], partial(putenv, address)


def _no_entry() -> None:
    """Do nothing: there is no memory of ours to enter."""


show_job: Callable[[int], None] = _Entry().show


def hide_job() -> None:
    """Take the number of the last job out of `os.environ`, which is compared with that of before the lease.

    The next job's replaces the one of the process's own environment: no need to unset it there too.
    """
    _environment.pop(_NAME, None)
