"""Files of users' modules that this process has imported, and a stamp of their versions for what is sent."""

from __future__ import annotations

import os
import sys
import zlib
from types import ModuleType
from typing import Any

__all__ = ["FileVersion", "file_version", "module_origin", "versions_stamp"]

_MOST = 200
"""Modules that a stamp covers: each is one question to the file system."""

_OURS = frozenset({"grainlike", "grainlike_worker", "__main__", "__mp_main__"})
_INSTALLED = ("/site-packages/", "/dist-packages/")
_STDLIB = f"{os.path.dirname(os.__file__)}/"  # noqa: PTH120 - as text is compared

FileVersion = tuple[int, int]
"""Time of the last change of a file, in nanoseconds, and its size."""


def module_origin(name: str, module: ModuleType | None) -> tuple[str, Any]:
    """Return the source file of a user's module, and its spec; an empty path for one without, or of others."""
    if name.partition(".")[0] in _OURS:
        return "", None
    try:  # as its own attributes may do anything, such as import it first
        names = object.__getattribute__(module, "__dict__")
        path, spec = names.get("__file__"), names.get("__spec__")
    except Exception:  # noqa: BLE001 - anything may stand in for a module
        return "", None
    if type(path) is not str or not path.endswith(".py") or path.startswith(_STDLIB):
        return "", None
    return ("", None) if any(part in path for part in _INSTALLED) else (path, spec)


def file_version(path: str) -> FileVersion | None:
    """Return the version of a file; None for one that is away."""
    try:
        found = os.stat(path)  # noqa: PTH116 - as text is compared
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size


class _Stamps:
    """The stamp of this process, made anew when modules were imported, or imported again."""

    def __init__(self) -> None:
        self._count = 0
        self._seen: set[str] = set()
        self._specs: dict[str, tuple[Any, str]] = {}
        """Spec and version of each module, by name."""
        self._stamp = b""

    def read(self) -> bytes:
        """Return the stamp; empty while there are no modules of the user's."""
        names: list[str] = []
        if len(sys.modules) != self._count:
            names = [name for name in list(sys.modules) if name not in self._seen]
            self._seen.update(names)
            self._count = len(sys.modules)
        names += [name for name, (spec, _) in self._specs.items() if module_origin(name, _module(name))[1] is not spec]
        for name in names:
            self._note(name)
        if names and self._specs:
            text = "\n".join(f"{name} {version}" for name, (_, version) in sorted(self._specs.items()))
            self._stamp = zlib.crc32(text.encode(errors="backslashreplace")).to_bytes(4, "little")
        return self._stamp

    def _note(self, name: str) -> None:
        path, spec = module_origin(name, _module(name))
        if path and (name in self._specs or len(self._specs) < _MOST):
            self._specs[name] = spec, repr(file_version(path))


def _module(name: str) -> ModuleType | None:
    return sys.modules.get(name)


versions_stamp = _Stamps().read
"""Returns four bytes that differ where files of users' modules that this process has imported have other versions."""
