"""Picklers that copy objects that have no importable name: cloudpickle and dill. Their imports are slow."""

import io
import pickle
import sys
import threading
from collections.abc import Callable
from functools import cache
from types import CodeType, FunctionType
from typing import Any

import cloudpickle

from grainlike.payload._at_home import reduced_here
from grainlike.payload._classes import guarded
from grainlike.payload._names import reference_behind_wrapper, resolve
from grainlike.payload._sources import dependencies_of, placed

__all__ = ["cloudpickled", "copy_module", "dilled", "undilled"]

Reduction = Any  # what a reducer may give: a tuple, or NotImplemented
Keep = Callable[[pickle.PickleBuffer], object]


def cloudpickled(obj: object, keep: Keep | None = None) -> tuple[bytes, list[CodeType]]:
    """Return the stream of `obj` by cloudpickle, and the code objects in the stream. With `keep`, as of values, lines
    of source are in the stream, too: those of functions go beside it.
    """
    file = io.BytesIO()
    pickler = _CloudPickler(file, keep)
    pickler.dump(obj)
    return file.getvalue(), pickler.codes


def dilled(obj: object) -> tuple[bytes, list[CodeType]]:
    """Return the stream of `obj` by dill, with only the globals that it uses, and the code objects in the stream."""
    file = io.BytesIO()
    with _dill_lock:
        pickler = _dill_pickler()(file)
        pickler.dump(obj)
    return file.getvalue(), pickler.codes


def undilled(stream: bytes) -> Any:
    """Return the object of a stream by dill."""
    _import_dill_quietly()
    import dill

    return dill.Unpickler(io.BytesIO(stream), ignore=True).load()  # noqa: S301 -- the only room that unpickles


def copy_module(name: str) -> None:
    """Let cloudpickle copy objects of the loaded module `name` from now on."""
    cloudpickle.register_pickle_by_value(sys.modules[name])


def _named(function: FunctionType) -> Reduction:
    reference = reference_behind_wrapper(function)
    return NotImplemented if reference is None else (resolve, reference)


def _guarded(obj: type, reduction: Reduction) -> Reduction:
    """Return a class's reduction, guarded if the class goes by value: only then its sixth part sets attributes."""
    return guarded(obj, reduction) if reduction is not NotImplemented and len(reduction) == 6 else reduction


class _CloudPickler(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle's pickler, with wrapped functions by name, guarded classes, files of code, and a list of the copied
    code.
    """

    def __init__(self, file: io.BytesIO, keep: Keep | None) -> None:
        super().__init__(file, protocol=5, buffer_callback=keep)
        self.codes: list[CodeType] = []
        self._sourced = keep is not None
        self._inner: set[int] = set()
        """The code objects inside others, by id: their lines have gone with those."""

    def reducer_override(self, obj: Any) -> Reduction:
        if isinstance(obj, FunctionType):
            return self._reduce_function(obj)
        if isinstance(obj, CodeType):
            return self._reduce_code(obj)
        if isinstance(obj, type):
            return _guarded(obj, super().reducer_override(obj))
        reduction = reduced_here(obj)
        return super().reducer_override(obj) if reduction is NotImplemented else reduction

    def _reduce_function(self, function: FunctionType) -> Reduction:
        reduction = _named(function)
        if reduction is NotImplemented:
            reduction = super().reducer_override(function)
            if reduction is not NotImplemented:
                self.codes.append(function.__code__)
        return reduction

    def _reduce_code(self, code: CodeType) -> Reduction:
        lines = []
        if self._sourced and id(code) not in self._inner:
            lines = dependencies_of([code]).get(code.co_filename, [])
        self._inner.update(id(constant) for constant in code.co_consts if isinstance(constant, CodeType))
        # A copy of the name, as of the others: whether it is one object with another must not change the stream.
        return placed, (*_cloudpickles_code(code), "".join(code.co_filename), lines)


_cloudpickles_code: Callable[[CodeType], Any] = cloudpickle.Pickler.dispatch_table[CodeType]

_dill_lock = threading.RLock()  # dill registers types while it pickles, in tables that all picklers share


@cache
def _dill_pickler() -> Any:
    _import_dill_quietly()
    import dill

    by_cloudpickle = cloudpickle.Pickler(io.BytesIO())
    reducers = _cloudpickle_reducers()

    class DillPickler(dill.Pickler):  # type: ignore[misc]
        """dill's, but with what dill does badly left to cloudpickle.

        By itself, dill copies classes without identity, a user's modules with all their state (which would
        overwrite the receiver's), and the marks by which dataclasses know their fields as other objects.
        """

        def __init__(self, file: io.BytesIO) -> None:
            super().__init__(file, protocol=5, byref=False, recurse=True)
            self.codes: list[CodeType] = []

        def reducer_override(self, obj: Any) -> Reduction:
            if isinstance(obj, FunctionType):
                return _named(obj)
            if isinstance(obj, type):
                return _guarded(obj, by_cloudpickle.reducer_override(obj))
            if isinstance(obj, CodeType):
                self.codes.append(obj)
            reducer: Callable[[Any], Reduction] = reducers.get(type(obj), reduced_here)
            return reducer(obj)

    return DillPickler


def _cloudpickle_reducers() -> dict[type, Callable[[Any], Reduction]]:
    """Return cloudpickle's reducers by type, except those for parts of functions and for files, which dill handles."""
    cell = type((lambda x: lambda: x)(0).__closure__[0])  # type: ignore[index]
    left_to_dill = {CodeType, cell, io.TextIOWrapper, memoryview}
    return {cls: reducer for cls, reducer in cloudpickle.Pickler.dispatch_table.items() if cls not in left_to_dill}


def _import_dill_quietly() -> None:
    """Import dill without adding its types to the standard library's pickler."""
    if "dill" not in sys.modules:
        import dill

        dill.extend(use_dill=False)
