"""Numbers for functions: each is serialized once, and shipped once to each worker, by number."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from grainlike.graph import Function
from grainlike.payload import dump_function, name_function
from grainlike.wire import Buffer, FunctionSpec, NestedFunction

__all__ = ["Functions"]

_CHAIN = "chain"

_Key = tuple[bytes, str, bool, float | None, int, bool, bool, tuple[str, ...]]
"""Digest, name, whether it is async, timeout, retries, whether one job is many calls, whether it keeps its cores, and
where it imports from."""


class Functions:
    """The functions that a head has seen.

    A function whose globals or closure were rebound since has other bytes, and gets a number of its own: jobs already
    submitted run what was meant then.
    """

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Function, tuple[bytes, int]] = WeakKeyDictionary()
        self._numbers: dict[_Key, int] = {}
        self._shipped: dict[bytes, bytes] = {}
        """What jobs sent, by digest."""
        self._specs: dict[int, tuple[FunctionSpec, bytes]] = {}

    def number(self, function: Function) -> tuple[int, bool]:
        """The function's number, and whether it is new. Raises `SerializationError` for one that cannot travel."""
        blob = dump_function(function.callable)
        known = self._known.get(function)
        if known is not None and known[0] is blob.digest:
            return known[1], False
        options = function.options
        key = (
            blob.digest,
            function.name,
            function.is_async,
            options.timeout,
            options.retries,
            function.many,
            options.keep,
            (),
        )
        fn, fresh = self._intern(key, blob.data)
        self._known[function] = blob.digest, fn
        return fn, fresh

    def adopt(self, spec: NestedFunction, data: Buffer | None, paths: tuple[str, ...] = ()) -> tuple[int, bool]:
        """The number of a function that a job or a client calls, and whether it is new.

        `data` is None once a job had sent it; `paths` are the imports that it needs.
        """
        if data is not None:
            self._shipped[spec.digest] = bytes(data)
        key = (spec.digest, spec.name, spec.is_async, spec.timeout, spec.retries, spec.many, spec.keep, paths)
        return self._intern(key, self._shipped[spec.digest])

    def chain(self, *, is_async: bool) -> tuple[int, bool]:
        """The number of the worker's own function that runs several calls one after another, and whether it is new."""
        blob = name_function("grainlike_worker._chain", "run_chain_async" if is_async else "run_chain")
        return self._intern((blob.digest, _CHAIN, is_async, None, 0, False, False, ()), blob.data)

    def _intern(self, key: _Key, data: bytes) -> tuple[int, bool]:
        fn = self._numbers.get(key)
        if fn is not None:
            return fn, False
        fn = self._numbers[key] = len(self._numbers) + 1
        digest, name, is_async, timeout, _, many, keep, paths = key
        self._specs[fn] = FunctionSpec(fn, digest, name, is_async, timeout, many, keep, paths), data
        return fn, True

    def shipment(self, fn: int) -> tuple[FunctionSpec, bytes]:
        """What a worker has to be told of a function."""
        return self._specs[fn]
