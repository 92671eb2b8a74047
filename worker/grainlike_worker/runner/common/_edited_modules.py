"""Modules whose files were edited after this process had imported them: its jobs go on with the old code.

A worker outlives programs. A user who edits a module and starts the program again expects the new code, and processes
that have imported the module run the old one.
"""

from __future__ import annotations

import os
import sys
import zlib
from time import monotonic
from typing import Any, NamedTuple

__all__ = ["EditedModules", "warning_of"]

PERIOD_S = 1.0
"""Seconds between two looks at the files, at least."""

_SHARE = 0.01
"""Share of the time that looks take at most: a file server may need long for each file."""

_MOST = 200
"""Modules that are watched: a look asks the file system once for each."""

_SHOWN = 3
"""Modules that a warning names."""

_READ = 1 << 18
"""Bytes of a file up to which it is read, to know whether one with another time has other contents."""

_OURS = frozenset({"grainlike", "grainlike_worker"})
_INSTALLED = ("/site-packages/", "/dist-packages/")
_STDLIB = f"{os.path.dirname(os.__file__)}/"  # noqa: PTH120 - as text is compared

_Version = tuple[int, int]
"""Time of the last change of a file, in nanoseconds, and its size."""


class _Imported(NamedTuple):
    path: str
    spec: Any
    """`__spec__` of the module, which each import and `importlib.reload` makes again."""
    version: _Version
    checksum: int | None
    """That of the contents; None for a file that was not read."""


class EditedModules:
    """Modules of users' that this process has imported. Modules that are installed are not watched, nor are those that
    were here before.

    `due_at` is when files are to be looked at again, on the clock of `look`.
    """

    __slots__ = ("_count", "_imported", "_seen", "due_at")

    def __init__(self) -> None:
        self._seen = set(sys.modules)
        self._count = len(self._seen)
        self._imported: dict[str, _Imported] = {}
        """Modules that are watched, by name."""
        self.due_at: float = 0.0

    def note(self) -> None:
        """Note the files of modules that were imported since the last time."""
        if len(sys.modules) == self._count:  # as for most functions: to look at each name takes a while
            return
        names = list(sys.modules)
        fresh = [name for name in names if name not in self._seen]
        self._seen.update(fresh)
        self._count = len(names)
        for name in fresh:
            if len(self._imported) < _MOST:
                self._note(name)

    def _note(self, name: str) -> None:
        path, spec = _origin_of(name)
        version = _version_of(path) if path else None
        if version is not None:
            self._imported[name] = _Imported(path, spec, version, _checksum_of(path, version))

    def look(self, now: float) -> list[tuple[str, str]]:
        """Return name and path of modules that were edited since they were noted, each once."""
        began = monotonic()
        self.note()
        changed = [
            name
            for name, noted in self._imported.items()
            if (_version_of(noted.path) or noted.version) != noted.version  # one that is away is being written
        ]
        edited = [(name, path) for name in changed if (path := self._edited(name))]
        self.due_at = now + max(PERIOD_S, (monotonic() - began) / _SHARE)
        return edited

    def _edited(self, name: str) -> str:
        """Return the path of a module whose file has changed, if its contents are not those that were imported."""
        noted = self._imported.pop(name)
        path, spec = _origin_of(name)
        if path != noted.path or spec is not noted.spec:  # imported again, or gone
            self._note(name)
            return ""
        version = _version_of(noted.path)
        if version is None or (noted.checksum is not None and _checksum_of(noted.path, version) == noted.checksum):
            # Touched, written as it was, or checked out twice.
            self._imported[name] = noted._replace(version=version or noted.version)
            return ""
        return noted.path


def warning_of(edited: list[tuple[str, str]], instance: str) -> str:
    """Return a line that says which modules were edited, and what to do."""
    shown = ", ".join(f"{name} ({path})" for name, path in edited[:_SHOWN])
    more = f" and {len(edited) - _SHOWN} more" if len(edited) > _SHOWN else ""
    was, its = ("was", "its") if len(edited) == 1 else ("were", "their")
    return (
        f"grainlike: {shown}{more} {was} edited since this process of worker {instance} imported {its} old code, which "
        f"jobs go on with: start the worker again (of an embedded one, the program), or send a copy of the module with "
        f"the program: cloudpickle.register_pickle_by_value({edited[0][0]})"
    )


def _origin_of(name: str) -> tuple[str, Any]:
    """Return the source file of a user's module, and its spec; an empty path for one without, or of others."""
    if name.partition(".")[0] in _OURS:
        return "", None
    try:  # as its own attributes may do anything, such as import it first
        names = object.__getattribute__(sys.modules[name], "__dict__")
        path, spec = names.get("__file__"), names.get("__spec__")
    except Exception:  # noqa: BLE001 - anything may stand in for a module
        return "", None
    if type(path) is not str or not path.endswith(".py") or path.startswith(_STDLIB):
        return "", None
    return ("", None) if any(part in path for part in _INSTALLED) else (path, spec)


def _version_of(path: str) -> _Version | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - as text is compared
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size


def _checksum_of(path: str, version: _Version) -> int | None:
    """Return a checksum of a file of this version; None for one that is too large, or cannot be read."""
    if version[1] > _READ:
        return None
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            return zlib.crc32(file.read(_READ + 1))
    except OSError:
        return None
