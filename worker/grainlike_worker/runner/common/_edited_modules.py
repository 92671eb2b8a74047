"""Modules whose files were edited after this process had imported them, so that it has their old code.

A worker outlives programs. A user who edits a module and starts the program again expects the new code: its functions
are new to each process (their bytes have a stamp of the modules' versions), and a process that would run the old code
has a successor started for them. The jobs of a program that was there before the edit go on as they began.
"""

from __future__ import annotations

import sys
import zlib
from time import monotonic
from typing import Any, NamedTuple

from grainlike.payload import FileVersion, file_version, module_origin

__all__ = ["EditedModules", "reason_to_replace", "warning_of"]

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


class _Imported(NamedTuple):
    path: str
    spec: Any
    """`__spec__` of the module, which each import and `importlib.reload` makes again."""
    version: FileVersion
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
        version = file_version(path) if path else None
        if version is not None:
            self._imported[name] = _Imported(path, spec, version, _checksum_of(path, version))

    def look(self, now: float) -> list[tuple[str, str]]:
        """Return name and path of modules that were edited since they were noted, each once."""
        began = monotonic()
        self.note()
        changed = [
            name
            for name, noted in self._imported.items()
            if (file_version(noted.path) or _version_in_place_of(noted)) != noted.version
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
        version = file_version(noted.path)
        if version is None and _version_in_place_of(noted) != noted.version:
            return noted.path
        if version is None or (noted.checksum is not None and _checksum_of(noted.path, version) == noted.checksum):
            # Touched, written as it was, or checked out twice.
            self._imported[name] = noted._replace(version=version or noted.version)
            return ""
        return noted.path


def _version_in_place_of(noted: _Imported) -> FileVersion:
    """Return the version of what an import finds in place of a file that is away: a package in place of a module, or a
    module in place of a package. Without one the file is being written, and its version is as before.
    """
    stem = noted.path.removesuffix(".py").removesuffix("/__init__")
    return file_version(f"{stem}.py") or file_version(f"{stem}/__init__.py") or noted.version


def reason_to_replace(edited: list[tuple[str, str]]) -> str:
    """Return why a process is replaced before it runs a function that is new to it."""
    return _edited_since(edited, "it")


def warning_of(edited: list[tuple[str, str]], instance: str) -> str:
    """Return a line that says which modules were edited, and what to do."""
    return (
        f"{_edited_since(edited, f'this process of worker {instance}')}, which jobs go on with: start the worker again "
        "(of an embedded one, the program), or send a copy of the module with the program: "
        f"cloudpickle.register_pickle_by_value({edited[0][0]})"
    )


def _edited_since(edited: list[tuple[str, str]], process: str) -> str:
    """Return a clause that names the modules, and says that this process has their old code."""
    was, its = ("was", "its") if len(edited) == 1 else ("were", "their")
    shown = ", ".join(f"{name} ({path})" for name, path in edited[:_SHOWN])
    more = f" and {len(edited) - _SHOWN} more" if len(edited) > _SHOWN else ""
    return f"{shown}{more} {was} edited since {process} imported {its} old code"


def _origin_of(name: str) -> tuple[str, Any]:
    return module_origin(name, sys.modules.get(name))


def _checksum_of(path: str, version: FileVersion) -> int | None:
    """Return a checksum of a file of this version; None for one that is too large, or cannot be read."""
    if version[1] > _READ:
        return None
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            return zlib.crc32(file.read(_READ + 1))
    except OSError:
        return None
