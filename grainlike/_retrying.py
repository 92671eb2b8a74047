"""The retry decision: whether and when a call whose attempt failed is tried again, wherever the attempt ran."""

from __future__ import annotations

__all__ = ["JITTER", "backoff_s", "tries_again"]

JITTER = 0.25
"""The largest share of a wait that chance takes off."""


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


def backoff_s(backoff: tuple[float, float, float], nth: int, chance: float) -> float:
    """Return the seconds to wait before the `nth` further attempt; `chance` is a number from 0 to 1.

    >>> [backoff_s((1.0, 2.0, 5.0), nth, 0.0) for nth in (1, 2, 3, 4)]
    [1.0, 2.0, 4.0, 5.0]
    >>> backoff_s((1.0, 2.0, 5.0), 1, 1.0)
    0.75
    """
    seconds, factor, most = backoff
    for _ in range(nth - 1):
        if factor == 1.0 or seconds >= most:
            break
        seconds *= factor
    return min(seconds, most) * (1.0 - JITTER * chance)
