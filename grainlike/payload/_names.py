"""Names that a fresh interpreter finds by import.

`@delayed def f` in an importable module leaves a wrapper under the name `f`. Pickle looks the name up, finds another
object than the function, and fails; dill and cloudpickle would copy the function with its module's globals. But the
function has a name: "the function that `module.f` wraps". So these travel: module, qualified name, and the number of
`__wrapped__` between.

A module in `sys.modules` need not be importable: test runners, notebooks and `exec` put modules there. Objects of such
modules travel by value, like objects of `__main__`.

What a name means changes with the file of its module: a stamp tells the versions of those of the user apart.
"""

import importlib
import os
import sys
import zlib
from collections.abc import Collection, Iterator, Sequence
from operator import is_, itemgetter
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

__all__ = [
    "STAMP_BYTES",
    "FileVersion",
    "Reference",
    "file_version",
    "importable",
    "is_registered",
    "module_origin",
    "reference_behind_wrapper",
    "reference_to",
    "registered",
    "resolve",
    "versions_stamp",
]

Reference = tuple[str, str, int]

_MAIN = frozenset({"__main__", "__mp_main__"})
_OURS = frozenset({"grainlike", "grainlike_worker"})
"""Packages that every receiver has, even if an import does not find them here now. Nothing of theirs goes by value: a
copy of the code that rebuilds classes would not know which were written here, and errors would become `RemoteError`."""

_DEEPEST = 64
_known: dict[str, bool] = {}


def reference_behind_wrapper(function: FunctionType) -> Reference | None:
    """Return `reference_to` a function behind a wrapper; None for a function under its own name, which pickle finds."""
    reference = reference_to(function)
    return reference if reference is not None and reference[2] else None


def reference_to(function: FunctionType | type) -> Reference | None:
    """Return module, qualified name and depth of wrapping at which a function or class is found; None if nowhere."""
    module, qualname = getattr(function, "__module__", None), function.__qualname__
    if module not in sys.modules or not importable(module):
        return None
    try:
        found = _attribute(sys.modules[module], qualname)
    except AttributeError:
        return None
    for depth in range(_DEEPEST):
        if found is function:
            return module, qualname, depth
        found = getattr(found, "__wrapped__", None)
    return None


def resolve(module: str, qualname: str, depth: int) -> object:
    """Return the function that `reference_to` named, in this process; imports its module."""
    found = _attribute(importlib.import_module(module), qualname)
    for _ in range(depth):
        found = getattr(found, "__wrapped__")  # noqa: B009 -- type checkers know no such attribute of an object
    return found


def registered() -> Collection[str]:
    """Return the modules and packages that the program has told cloudpickle to copy (`register_pickle_by_value`)."""
    cloudpickle = sys.modules.get("cloudpickle.cloudpickle")
    found: Collection[str] = () if cloudpickle is None else cloudpickle._PICKLE_BY_VALUE_MODULES
    return found


def is_registered(name: str) -> bool:
    """Return True for a module that is registered with cloudpickle, or is in a registered package."""
    return any(name == one or name.startswith(f"{one}.") for one in registered())


def importable(name: str) -> bool:
    """Return True if an interpreter with the same search path would import the module that is loaded here as `name`.

    Modules that the program has told cloudpickle to copy count as not importable.
    """
    if registered() and is_registered(name):
        return False
    known = _known.get(name)
    if known is None:
        if name not in sys.modules:
            return False  # not noted, because the module may be loaded later
        known = _known[name] = name not in _MAIN and (name.partition(".")[0] in _OURS or _findable(name))
    return known


def _findable(name: str) -> bool:
    module = sys.modules.get(name)
    package, _, _ = name.rpartition(".")
    if module is None or (package and not importable(package)):
        return False
    file = getattr(module, "__file__", None)
    return any(file is None or origin is None or _same(file, origin) for origin in _origins(name, package))


def _origins(name: str, package: str) -> Iterator[str | None]:
    path = getattr(sys.modules.get(package), "__path__", ()) if package else None
    for finder in sys.meta_path:
        spec = finder.find_spec(name, path) if hasattr(finder, "find_spec") else None
        if spec is not None:
            yield spec.origin if spec.has_location else None


def _same(file: str, origin: str) -> bool:
    return file == origin or Path(file).resolve() == Path(origin).resolve()


def _attribute(holder: object, qualname: str) -> object:
    """Return an attribute without binding it in classes: a decorator's object may be a descriptor."""
    for name in qualname.split("."):
        holder = _static(holder, name) if isinstance(holder, type) else getattr(holder, name)
    return holder


def _static(cls: type, name: str) -> object:
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    raise AttributeError(name)


# --- versions of modules ---------------------------------------------------------------------------------------------

_MOST = 200
"""Modules that a stamp covers: each is one question to the file system."""

STAMP_BYTES = 4
"""Bytes of a stamp."""

_NOT_WATCHED = _OURS | _MAIN
_INSTALLED = ("/site-packages/", "/dist-packages/")
_STDLIB = f"{os.path.dirname(os.__file__)}/"  # noqa: PTH120 - as text is compared

FileVersion = tuple[int, int]
"""Time of the last change of a file, in nanoseconds, and its size."""


def module_origin(name: str, module: ModuleType | None) -> tuple[str, Any]:
    """Return the source file of a user's module, and its spec; an empty path for one without, or of others."""
    if name.partition(".")[0] in _NOT_WATCHED:
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
    """Stamp of this process, which is read again when modules were imported, or imported again."""

    def __init__(self) -> None:
        self._count = 0
        self._seen: set[str] = set()
        self._specs: dict[str, tuple[Any, str]] = {}
        """Spec and version of each module, by name."""
        self._watched: _Watched = [], [], [], []
        self._stamp = b""

    def read(self) -> bytes:
        """Return the stamp; empty while there are no modules of the user's."""
        if len(sys.modules) != self._count or not _as_watched(*self._watched):
            self._look()
        return self._stamp

    def _look(self) -> None:
        names: list[str] = []
        if len(sys.modules) != self._count:
            names = [name for name in list(sys.modules) if name not in self._seen]
            self._seen.update(names)
            self._count = len(sys.modules)
        known = list(self._specs.items())  # other threads may note modules meanwhile
        names += [name for name, (spec, _) in known if module_origin(name, _module(name))[1] is not spec]
        for name in names:
            self._note(name)
        if names and self._specs:
            text = "\n".join(f"{name} {version}" for name, (_, version) in sorted(self._specs.items()))
            self._stamp = zlib.crc32(text.encode(errors="backslashreplace")).to_bytes(STAMP_BYTES, "little")
        self._watched = _watched(list(self._specs.items()))

    def _note(self, name: str) -> None:
        path, spec = module_origin(name, _module(name))
        if path and (name in self._specs or len(self._specs) < _MOST):
            self._specs[name] = spec, repr(file_version(path))


def _module(name: str) -> ModuleType | None:
    return sys.modules.get(name)


_Watched = tuple[list[str], list[ModuleType | None], list[dict[str, Any]], list[Any]]
"""Names, and the modules that they mean; attributes of those that are there, and the specs among them."""

_spec_in = itemgetter("__spec__")


def _watched(noted: Sequence[tuple[str, tuple[Any, str]]]) -> _Watched:
    names = [name for name, _ in noted]
    modules = list(map(_module, names))
    attributes: list[dict[str, Any]] = []
    specs: list[Any] = []
    for (name, (spec, _)), module in zip(noted, modules, strict=True):
        if module_origin(name, module)[0]:
            attributes.append(object.__getattribute__(module, "__dict__"))
            specs.append(spec)
    return names, modules, attributes, specs


def _as_watched(
    names: list[str], modules: list[ModuleType | None], attributes: list[dict[str, Any]], specs: list[Any]
) -> bool:
    """Return True if these are the modules of these names, and none was imported again since: that gives it another
    spec. Each copy of a function asks, in programs of many modules: no code of ours runs for each of them here.
    """
    try:
        imported_as_then = all(map(is_, map(_spec_in, attributes), specs))
    except KeyError:
        return False
    return imported_as_then and all(map(is_, map(sys.modules.get, names), modules))


versions_stamp = _Stamps().read
"""Returns four bytes that differ where files of users' modules that this process has imported have other versions."""
