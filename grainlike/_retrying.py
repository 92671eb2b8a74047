"""The retry decision: whether a call whose attempt failed is tried again, wherever the attempt ran."""

from __future__ import annotations

__all__ = ["tries_again"]


def tries_again(failures: int, times: int, *, covered: bool = True, committed: bool = False) -> bool:
    """Return True if a call gets another attempt after a failure.

    Losses of a worker or process are counted apart, by the scheduler alone.

    Args:
        failures: how many attempts have failed, this one included.
        times: how many further attempts the call has after failures, `Retry.times`.
        covered: the call's `Retry` says that this kind of failure is tried again.
        committed: something of this attempt has been given away already, as an item of a stream.

    Example:
        >>> [tries_again(failures, 2) for failures in (1, 2, 3)]
        [True, True, False]
    """
    return failures <= times and covered and not committed
