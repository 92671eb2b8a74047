"""Numbers for functions: each is serialized once, and shipped once to each worker, by number."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from grainlike.graph import Function
from grainlike.payload import dump_function
from grainlike.wire import FunctionSpec

__all__ = ["Functions"]


class Functions:
    """The functions that a head has seen.

    A function whose globals or closure were rebound since has other bytes, and gets a number of its own: jobs already
    submitted run what was meant then.
    """

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Function, tuple[bytes, int]] = WeakKeyDictionary()
        self._numbers: dict[tuple[bytes, str, bool, float | None, int], int] = {}
        self._specs: dict[int, tuple[FunctionSpec, bytes]] = {}

    def number(self, function: Function) -> tuple[int, bool]:
        """The function's number, and whether it is new. Raises `SerializationError` for one that cannot travel."""
        blob = dump_function(function.callable)
        known = self._known.get(function)
        if known is not None and known[0] is blob.digest:
            return known[1], False
        options = function.options
        key = (blob.digest, function.name, function.is_async, options.timeout, options.retries)
        fn = self._numbers.get(key)
        fresh = fn is None
        if fn is None:
            fn = self._numbers[key] = len(self._numbers) + 1
            spec = FunctionSpec(fn, blob.digest, function.name, function.is_async, options.timeout)
            self._specs[fn] = spec, blob.data
        self._known[function] = blob.digest, fn
        return fn, fresh

    def shipment(self, fn: int) -> tuple[FunctionSpec, bytes]:
        """What a worker has to be told of a function."""
        return self._specs[fn]
