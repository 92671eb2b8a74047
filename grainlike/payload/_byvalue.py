"""The two picklers that copy what cannot be named. Imported on first need only: cloudpickle and dill take their time."""

import io
import pickle
import sys
import threading
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import cloudpickle

from ._classes import guarded
from ._names import reference_behind_wrapper, resolve

__all__ = ["CloudPickler", "cloudpickled", "dilled", "undilled"]

Reduction = Any  # what a reducer may give: a tuple, or NotImplemented
Keep = Callable[[pickle.PickleBuffer], object]


def _named(function: FunctionType) -> Reduction:
    reference = reference_behind_wrapper(function)
    return NotImplemented if reference is None else (resolve, reference)


class CloudPickler(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle's, with wrapped functions by name, classes guarded, and a record of the code it copied."""

    def __init__(self, file: io.BytesIO, keep: Keep | None = None) -> None:
        super().__init__(file, protocol=5, buffer_callback=keep)
        self.codes: list[CodeType] = []

    def reducer_override(self, obj: Any) -> Reduction:
        if isinstance(obj, FunctionType):
            named = _named(obj)
            if named is not NotImplemented:
                return named
        reduction = super().reducer_override(obj)
        if reduction is NotImplemented:
            return reduction
        if isinstance(obj, FunctionType):
            self.codes.append(obj.__code__)
        return guarded(obj, reduction) if isinstance(obj, type) and len(reduction) == 6 else reduction


def cloudpickled(obj: object, keep: Keep | None = None) -> tuple[bytes, list[CodeType]]:
    """The stream of `obj` by cloudpickle, and the code objects copied into it."""
    file = io.BytesIO()
    pickler = CloudPickler(file, keep)
    pickler.dump(obj)
    return file.getvalue(), pickler.codes


_dill_lock = threading.RLock()  # dill registers types while it pickles, in tables that all its picklers share


def dilled(obj: object) -> tuple[bytes, list[CodeType]]:
    """The stream of `obj` by dill, following globals one by one, and the code objects copied into it."""
    file = io.BytesIO()
    with _dill_lock:
        pickler = _dill_pickler()(file)
        pickler.dump(obj)
    return file.getvalue(), pickler.codes


_pickler_class: Any = None


def _dill_pickler() -> Any:
    global _pickler_class
    if _pickler_class is None:
        _pickler_class = _make_dill_pickler()
    return _pickler_class


def _make_dill_pickler() -> Any:
    import_dill_quietly()
    import dill

    by_cloudpickle = cloudpickle.Pickler(io.BytesIO())
    left_to_dill = {CodeType, type((lambda x: lambda: x)(0).__closure__[0]), io.TextIOWrapper, memoryview}  # type: ignore[index]
    table = {t: f for t, f in cloudpickle.Pickler.dispatch_table.items() if t not in left_to_dill}

    class DillPickler(dill.Pickler):  # type: ignore[misc]
        """dill's, but with what dill does badly left to cloudpickle.

        dill copies classes without identity, a user's modules with their whole state (which would overwrite the
        receiver's), and the marks inside dataclasses as strangers.
        """

        def __init__(self, file: io.BytesIO) -> None:
            super().__init__(file, protocol=5, byref=False, recurse=True)
            self.codes: list[CodeType] = []

        def reducer_override(self, obj: Any) -> Reduction:
            if isinstance(obj, FunctionType):
                return _named(obj)
            if isinstance(obj, type):
                reduction = by_cloudpickle.reducer_override(obj)
                return (
                    guarded(obj, reduction)
                    if reduction is not NotImplemented and len(reduction) == 6
                    else reduction
                )
            if isinstance(obj, CodeType):
                self.codes.append(obj)
                return NotImplemented
            reducer = table.get(type(obj))
            return NotImplemented if reducer is None else reducer(obj)

    return DillPickler


def import_dill_quietly() -> None:
    """Import dill, but keep it from adding its types to the standard library's own pickler, as it does by default."""
    if "dill" in sys.modules:
        return
    import dill

    dill.extend(use_dill=False)


def undilled(stream: bytes) -> Any:
    """The object of a stream by dill."""
    import_dill_quietly()
    import dill

    return dill.Unpickler(io.BytesIO(stream), ignore=True).load()
