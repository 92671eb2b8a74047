"""Numbers for functions: each is serialized once, and shipped once to each worker, by number."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

from grainlike.executor._retry_spec import retry_spec
from grainlike.graph import Function
from grainlike.payload import dump_function, name_function
from grainlike.scheduler import FunctionDefined
from grainlike.wire import Buffer, FunctionSpec, NestedFunction, RetrySpec

__all__ = ["Functions"]

_CHAIN = "chain"

_Key = tuple[bytes, str, bool, float | None, RetrySpec, bool, bool, tuple[str, ...]]
"""Digest, name, whether it is async, timeout, when it is tried again, whether one job is many calls, whether it keeps
its cores, and where it imports from."""


class Functions:
    """The functions that a head has seen; the mind is told (`define`) of each, once.

    A function whose globals or closure were rebound since has other bytes, and gets a number of its own: jobs already
    submitted run what was meant then.
    """

    def __init__(self, define: Callable[[FunctionDefined], object]) -> None:
        self._define = define
        self._known: WeakKeyDictionary[Function, tuple[bytes, int]] = WeakKeyDictionary()
        self._numbers: dict[_Key, int] = {}
        self.shipped: dict[bytes, bytes] = {}
        """What jobs sent, by digest."""
        self._specs: dict[int, tuple[FunctionSpec, bytes]] = {}

    def number(self, function: Function) -> int:
        """The function's number. Raises `SerializationError` for one that cannot travel."""
        blob = dump_function(function.callable)
        known = self._known.get(function)
        if known is not None and known[0] is blob.digest:
            return known[1]
        options = function.options
        key = (
            blob.digest,
            function.name,
            function.is_async,
            options.timeout,
            retry_spec(options.retry),
            function.many,
            options.keep,
            (),
        )
        fn = self._intern(key, blob.data)
        self._known[function] = blob.digest, fn
        return fn

    def adopt(self, spec: NestedFunction, data: Buffer | None, paths: tuple[str, ...] = ()) -> int:
        """The number of a function that a job or a client calls.

        `data` is None once a job had sent it; `paths` are the imports that it needs.
        """
        if data is not None:
            self.shipped[spec.digest] = bytes(data)
        key = (spec.digest, spec.name, spec.is_async, spec.timeout, spec.retry, spec.many, spec.keep, paths)
        return self._intern(key, self.shipped[spec.digest])

    def chain(self, *, is_async: bool) -> int:
        """The number of the worker's own function that runs several calls one after another."""
        blob = name_function("grainlike_worker._chain", "run_chain_async" if is_async else "run_chain")
        return self._intern((blob.digest, _CHAIN, is_async, None, RetrySpec(), False, False, ()), blob.data)

    def _intern(self, key: _Key, data: bytes) -> int:
        fn = self._numbers.get(key)
        if fn is not None:
            return fn
        fn = self._numbers[key] = len(self._numbers) + 1
        digest, name, is_async, timeout, retry, many, keep, paths = key
        spec = FunctionSpec(fn, digest, name, is_async, timeout, many, keep, paths, retry.on, retry.on_memory)
        self._specs[fn] = spec, data
        self._define(FunctionDefined(fn, retry.times, retry.losses, retry.backoff, retry.on_timeout))
        return fn

    def shipment(self, fn: int) -> tuple[FunctionSpec, bytes]:
        """What a worker has to be told of a function."""
        return self._specs[fn]
