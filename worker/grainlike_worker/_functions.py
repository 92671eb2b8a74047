"""The functions that a runner was told of: loaded when first called, once per number."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from grainlike.payload import Payload, dump_error, load_function
from grainlike.wire import Buffer, Define, Setup

__all__ = ["Functions", "Loaded"]


class Loaded(NamedTuple):
    """A function ready to call, or (`refusal`) the dumped error that says why it cannot be."""

    name: str
    value_name: str
    is_async: bool
    callable: Callable[..., Any]
    refusal: Payload | None = None


class Functions:
    """What `Define` and `Setup` told. Nothing is unpickled before a job needs it."""

    __slots__ = ("_defined", "_loaded", "instance")

    def __init__(self) -> None:
        self.instance = ""
        self._defined: dict[int, tuple[str, bool, Buffer]] = {}
        self._loaded: dict[int, Loaded] = {}

    def set_up(self, setup: Setup) -> None:
        """Take the worker's name, and the client's import paths behind this process's own."""
        self.instance = setup.instance
        sys.path.extend(path for path in setup.paths if path not in sys.path)

    def define(self, message: Define, buffers: Sequence[Buffer]) -> None:
        """Take functions; each buffer belongs to the function of the same index."""
        for spec, buffer in zip(message.functions, buffers, strict=True):
            self._defined[spec.fn] = (spec.name, spec.is_async, buffer)

    def get(self, fn: int) -> Loaded:
        """The function of this number, loaded now if it is the first time. Never raises for a user's reasons."""
        loaded = self._loaded.get(fn)
        if loaded is None:
            name, is_async, blob = self._defined.pop(fn)
            loaded = self._loaded[fn] = _load(name, is_async, blob)
        return loaded


def _load(name: str, is_async: bool, blob: Buffer) -> Loaded:
    value_name = f"the value of {name}"
    try:
        return Loaded(name, value_name, is_async, load_function(blob))
    except BaseException as error:  # noqa: BLE001 - loading runs user code, which may raise anything
        _hint(error)
        return Loaded(name, value_name, is_async, _uncallable, dump_error(error))


def _hint(error: BaseException) -> None:
    cause = error if isinstance(error, ImportError) else error.__cause__
    if isinstance(cause, ImportError):
        error.add_note(
            f"the worker's Python ({sys.executable}) imports from: {', '.join(filter(None, sys.path))}; install the "
            "module there, or put its directory on PYTHONPATH where the worker starts"
        )


def _uncallable(*_: object, **__: object) -> object:
    raise AssertionError("a function that could not be loaded is never called")
