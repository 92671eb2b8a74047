"""Levels of a program's loggers: read where jobs are submitted, held by the processes that run them."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

import msgspec

__all__ = ["PROGRAM_LEVELS", "LogLevels", "ProgramLevels", "levels_of"]

_MOST_LOGGERS = 500
"""Number of loggers whose levels travel, those with the fewest dots first."""

_MOST_TEXTS = 100
"""Number of different levels that a program sends. Each makes another function of its functions, for a head keeps
what was meant at each submission; a program that makes loggers with levels all the time must not make functions so.
"""

_LEVEL_MOST = 2**31 - 1
"""Levels are at most this on the wire, and at least its negative."""

_MOST_KNOWN = 1000
"""Number of logger names whose level is remembered."""

_UNCHANGED = object()
"""Key in the root logger's cache of levels: `logging` empties that cache whenever a level changes."""


class _Levels(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Levels on the wire: of the loggers that have one by name, the root's under ""; `disable` as `logging.disable`."""

    disable: int
    levels: dict[str, int]


_decoder = msgspec.msgpack.Decoder(_Levels)


class ProgramLevels:
    """Levels of this program's loggers, packed. To find out that none has changed costs no call::

    packed = levels.packed if levels.unchanged in levels.cache else levels.read()
    """

    __slots__ = ("_sent", "cache", "packed")

    unchanged = _UNCHANGED

    def __init__(self) -> None:
        # Without it (it is private to `logging`), the levels are read each time: slower, and as right.
        self.cache: dict[Any, Any] = getattr(logging.root, "_cache", {})
        self.packed: bytes = b""
        self._sent: set[bytes] = set()

    def read(self) -> bytes:
        """Read the levels as they are now, and return them packed; never empty, which stands for no logging."""
        if hasattr(logging.root, "_cache"):
            self.cache[_UNCHANGED] = True  # first: a level that another thread changes meanwhile is read the next time
        disable, levels = _sendable_level(logging.root.manager.disable), _own_levels()
        packed = msgspec.msgpack.encode(_Levels(disable, levels))
        if packed not in self._sent and len(self._sent) >= _MOST_TEXTS:
            # Too much may be sent from now on, and is dropped when it arrives: the loggers here are asked again.
            packed = msgspec.msgpack.encode(_Levels(disable, {"": min(levels.values())}))
        self._sent.add(packed)
        self.packed = packed
        return packed


PROGRAM_LEVELS = ProgramLevels()
"""The levels of this program, for all its executors: there is one cache that says whether they have changed."""


def _own_levels() -> dict[str, int]:
    """Return the levels of the root logger, under "", and of the loggers whose level is not that of the one above.

    Names that are no Unicode text are left out, for they cannot be sent: such a logger is asked when records arrive.
    """
    loggers = [
        (name, logger.level, logger.parent)
        for name, logger in list(logging.root.manager.loggerDict.items())
        if isinstance(logger, logging.Logger) and logger.level and _is_text(name)
    ]
    unlike = [(name, level) for name, level, above in loggers if above is None or level != above.getEffectiveLevel()]
    unlike.sort(key=lambda pair: (pair[0].count("."), pair[0]))
    own = {"": logging.root.level, **dict(unlike[:_MOST_LOGGERS])}
    return {name: _sendable_level(level) for name, level in own.items()}


def _sendable_level(level: object) -> int:
    """Return a level as it is sent. Programs may assign anything to `Logger.level`; what is no number counts as 0."""
    try:
        return max(-_LEVEL_MOST, min(int(level), _LEVEL_MOST))  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError, OverflowError):
        return logging.NOTSET


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


class LogLevels:
    """Levels of a program, in a process that runs its jobs. `packed` is what the program sent.

    Example::

        levels = levels_of(packed)
        if levels.allows("app.model", logging.INFO):
            ...
    """

    __slots__ = ("_known", "_levels", "disable", "packed")

    def __init__(self, disable: int, levels: dict[str, int], packed: bytes = b"") -> None:
        self.disable: int = disable
        self.packed: bytes = packed
        self._levels = levels
        self._known: dict[str, int] = {}

    def allows(self, name: str, level: int) -> bool:
        """Return True if the program's logger of this name lets records of this level pass."""
        return level > self.disable and level >= self.effective(name)

    def effective(self, name: str) -> int:
        """Return the effective level of the logger of this name, as `Logger.getEffectiveLevel`."""
        found = self._known.get(name)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[name] = self._find("" if name == "root" else name)
        return found

    def _find(self, name: str) -> int:
        while name:
            level = self._levels.get(name)
            if level:
                return level
            name = name.rpartition(".")[0]
        return self._levels.get("", logging.WARNING)

    def names(self) -> list[str]:
        """Return the names of the loggers that have levels of their own, without the root."""
        return [name for name in self._levels if name]

    def is_like(self, other: LogLevels) -> bool:
        """Return True if these are the same levels as `other`."""
        return self.disable == other.disable and self._levels == other._levels

    def lowest(self, other: LogLevels) -> LogLevels:
        """Return levels that let pass what either lets pass: for a process in which jobs of several programs run."""
        names = ["", *self.names(), *other.names()]
        lowest = {name: min(self.effective(name), other.effective(name)) for name in names}
        return LogLevels(min(self.disable, other.disable), lowest)


@lru_cache(maxsize=64)
def levels_of(packed: bytes) -> LogLevels | None:
    """Return the levels that a program sent; None for a program whose jobs keep their records (`logging=False`)."""
    if not packed:
        return None
    try:
        told = _decoder.decode(packed)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return LogLevels(0, {"": logging.WARNING}, packed)
    return LogLevels(told.disable, told.levels, packed)
