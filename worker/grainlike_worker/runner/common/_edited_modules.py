"""Modules whose files were edited after this process had imported them: its jobs go on with the old code.

A worker outlives programs. Whoever edits a module and starts the program again expects the new code, and processes that
have imported the module run the old one.
"""

from __future__ import annotations

import os
import sys

__all__ = ["EditedModules", "warning_of"]

PERIOD_S = 1.0
"""Seconds between two looks at the files."""

_MOST = 200
"""Modules that are watched: a look asks the file system once for each."""

_SHOWN = 3
"""Modules that a warning names."""

_OURS = frozenset({"grainlike", "grainlike_worker"})
_INSTALLED = ("/site-packages/", "/dist-packages/")
_STDLIB = f"{os.path.dirname(os.__file__)}/"  # noqa: PTH120 - as text is compared

_Version = tuple[int, int]
"""Time of the last change of a file, in nanoseconds, and its size."""


class EditedModules:
    """Modules of users' that this process has imported. Modules that are installed are not watched, nor are those that
    were here before.

    `due_at` is when files are to be looked at again, on the clock of `look`.
    """

    __slots__ = ("_seen", "_versions", "due_at")

    def __init__(self) -> None:
        self._seen = set(sys.modules)
        self._versions: dict[str, tuple[str, _Version]] = {}
        """Path and version of watched modules, by name."""
        self.due_at: float = 0.0

    def note(self) -> None:
        """Note the files of modules that were imported since the last time."""
        fresh = [name for name in list(sys.modules) if name not in self._seen]
        self._seen.update(fresh)
        for name in fresh:
            path = _file_of(name)
            version = _version_of(path) if path and len(self._versions) < _MOST else None
            if version is not None:
                self._versions[name] = path, version

    def look(self, now: float) -> list[tuple[str, str]]:
        """Return name and path of modules that were edited since they were noted, each once."""
        self.due_at = now + PERIOD_S
        self.note()
        edited = [
            (name, path)
            for name, (path, version) in self._versions.items()
            if (_version_of(path) or version) != version  # one that is away for a moment is being written
        ]
        for name, _ in edited:
            del self._versions[name]
        return edited


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


def _file_of(name: str) -> str:
    """Return the source file of a user's module; empty for one without, or of others."""
    if name.partition(".")[0] in _OURS:
        return ""
    try:  # as its own attributes may do anything, such as import it first
        path = object.__getattribute__(sys.modules[name], "__dict__").get("__file__")
    except (AttributeError, KeyError):
        return ""
    if type(path) is not str or not path.endswith(".py") or path.startswith(_STDLIB):
        return ""
    return "" if any(part in path for part in _INSTALLED) else path


def _version_of(path: str) -> _Version | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - as above
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
