"""The two picklers that copy what cannot be named, behind imports that take their time."""

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

__all__ = ["cloudpickled", "copy_module", "dilled", "undilled"]

Reduction = Any  # what a reducer may give: a tuple, or NotImplemented
Keep = Callable[[pickle.PickleBuffer], object]


def cloudpickled(obj: object, keep: Keep | None = None) -> tuple[bytes, list[CodeType]]:
    """The stream of `obj` by cloudpickle, and the code objects copied into it."""
    file = io.BytesIO()
    pickler = _CloudPickler(file, keep)
    pickler.dump(obj)
    return file.getvalue(), pickler.codes


def dilled(obj: object) -> tuple[bytes, list[CodeType]]:
    """The stream of `obj` by dill, following globals one by one, and the code objects copied into it."""
    file = io.BytesIO()
    with _dill_lock:
        pickler = _dill_pickler()(file)
        pickler.dump(obj)
    return file.getvalue(), pickler.codes


def undilled(stream: bytes) -> Any:
    """The object of a stream by dill."""
    _import_dill_quietly()
    import dill

    return dill.Unpickler(io.BytesIO(stream), ignore=True).load()  # noqa: S301 -- the only room that unpickles


def copy_module(name: str) -> None:
    """From now on, cloudpickle copies what belongs to the loaded module `name`."""
    cloudpickle.register_pickle_by_value(sys.modules[name])


def _named(function: FunctionType) -> Reduction:
    reference = reference_behind_wrapper(function)
    return NotImplemented if reference is None else (resolve, reference)


def _guarded(obj: type, reduction: Reduction) -> Reduction:
    """A class by value has a setter of its attributes, the sixth part; one by name has nothing to guard."""
    return guarded(obj, reduction) if reduction is not NotImplemented and len(reduction) == 6 else reduction


class _CloudPickler(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle's, with wrapped functions by name, classes guarded, and a record of the code it copied."""

    def __init__(self, file: io.BytesIO, keep: Keep | None) -> None:
        super().__init__(file, protocol=5, buffer_callback=keep)
        self.codes: list[CodeType] = []

    def reducer_override(self, obj: Any) -> Reduction:
        if isinstance(obj, FunctionType):
            return self._reduce_function(obj)
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


_dill_lock = threading.RLock()  # dill registers types while it pickles, in tables that all its picklers share


@cache
def _dill_pickler() -> Any:
    _import_dill_quietly()
    import dill

    by_cloudpickle = cloudpickle.Pickler(io.BytesIO())
    reducers = _cloudpickle_reducers()

    class DillPickler(dill.Pickler):  # type: ignore[misc]
        """dill's, but with what dill does badly left to cloudpickle.

        By itself, dill copies classes without identity, a user's modules with all their state (which would
        overwrite the receiver's), and the marks by which dataclasses know their fields as strangers.
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
    """cloudpickle's reducers by type, but for parts of functions and files: those are what dill is for."""
    cell = type((lambda x: lambda: x)(0).__closure__[0])  # type: ignore[index]
    left_to_dill = {CodeType, cell, io.TextIOWrapper, memoryview}
    return {cls: reducer for cls, reducer in cloudpickle.Pickler.dispatch_table.items() if cls not in left_to_dill}


def _import_dill_quietly() -> None:
    """Import dill, but keep it from adding its types to the standard library's pickler."""
    if "dill" not in sys.modules:
        import dill

        dill.extend(use_dill=False)
