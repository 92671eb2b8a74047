"""Retry policy: when a call that failed, or was lost, is tried again."""

from dataclasses import dataclass
from math import isfinite
from typing import Any

__all__ = ["LOSSES", "MOST_SECONDS", "MOST_TIMES", "Retry"]

MOST_SECONDS = 1e9
"""Longest timeout or wait, 31 years: what messages between processes may say."""

MOST_TIMES = 2**63 - 1
"""Most attempts, for the same reason."""

LOSSES = 2
"""How many losses of its worker or process a call is forgiven if nothing else was said."""

_Kinds = type[BaseException] | tuple[type[BaseException], ...] | None
_Backoff = float | tuple[float, float, float] | None


@dataclass(frozen=True, slots=True)
class Retry:
    """Retry policy for `retries=` of a delayed function, if a number of further attempts is not enough to say.

    Args:
        times: how many further attempts there are after failures.
        on: exception types after which there is another attempt; None for all, including a timeout and a lack of
            memory. They are compared where the call ran. A subclass counts like its base: a timeout is an `OSError`,
            too.
        losses: how many times the call's process or worker may die under it; each such loss gives one more attempt,
            besides `times`. With 0, a call that may have begun never begins again when its worker is lost, or stops.
            Such a call still runs again after failures, as `times` allows, which is 3 by default; so `Retry(0,
            losses=0)` means at most once in any case.
        backoff: seconds to wait before each further attempt, or `(first, factor, max)` for waits that grow. Up to a
            random quarter is taken off, so that calls that failed together are not tried together. None for no wait.

    A call that waits holds no slots, and `explain` says for how long. A stream that has given an item is not tried
    again, as without a `Retry`.

    Raises:
        TypeError: a value is of the wrong type.
        ValueError: a value is out of range.

    Example::

        @delayed(retries=Retry(3, on=(OSError,), backoff=(0.5, 2, 60)))
        async def fetch(url): ...
    """

    times: int = 3
    on: _Kinds = None
    losses: int = LOSSES
    backoff: _Backoff = None

    def __post_init__(self) -> None:
        _check_count("times", self.times)
        _check_count("losses", self.losses)
        object.__setattr__(self, "on", _kinds(self.on))
        object.__setattr__(self, "backoff", _backoff(self.backoff))

    @property
    def kinds(self) -> tuple[type[BaseException], ...] | None:
        """The types of `on`; None for all."""
        assert not isinstance(self.on, type)
        return self.on

    @property
    def waits(self) -> tuple[float, float, float] | None:
        """First wait, factor, longest wait, of `backoff`."""
        return self.backoff if isinstance(self.backoff, tuple) else None

    def covers(self, kind: type[BaseException]) -> bool:
        """Return True if a failure by this type is tried again."""
        return self.kinds is None or issubclass(kind, self.kinds)


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name}= takes an integer, not {value!r}")
    if value < 0:
        raise ValueError(f"{name}= must be at least 0, not {value!r}")
    if value > MOST_TIMES:
        raise ValueError(f"{name}= must be at most {MOST_TIMES}, not {value!r}")


def _kinds(on: Any) -> tuple[type[BaseException], ...] | None:
    if on is None:
        return None
    kinds: tuple[Any, ...] = on if isinstance(on, tuple) else (on,)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise TypeError(f"on= takes exception types, not {kind!r}")
    if not kinds:
        raise ValueError("on= must name an exception type; for no further attempts say Retry(0)")
    return kinds


def _backoff(backoff: Any) -> tuple[float, float, float] | None:
    if backoff is None:
        return None
    parts: tuple[Any, ...] = backoff if isinstance(backoff, tuple) else (backoff, 1, backoff)
    if len(parts) != 3 or not all(isinstance(part, int | float) and not isinstance(part, bool) for part in parts):
        raise TypeError(f"backoff= takes seconds, or (first, factor, max), not {backoff!r}")
    first, factor, most = (float(part) for part in parts)
    if not all(map(isfinite, (first, factor, most))) or first < 0 or factor < 1 or most < first:
        raise ValueError(f"backoff= takes first from 0 on, factor from 1 on, max from first on, not {backoff!r}")
    if most > MOST_SECONDS:
        raise ValueError(f"backoff= takes waits of at most {MOST_SECONDS:g} seconds, not {backoff!r}")
    return first, factor, most
