"""Arguments that are not there yet: the value of the call before, put in place where the arguments are rebuilt.

Calls of which each needs the value of the one before may travel together. Where that value belongs, the arguments hold
`PREVIOUS`; `load_arguments_after` rebuilds them with a copy of the value made from its bytes, as if it had travelled:
what a call does to its arguments stays its own affair.
"""

import hashlib
import pickle
from collections.abc import Mapping

from grainlike.payload._functions import FunctionBlob
from grainlike.payload._payload import Payload
from grainlike.payload._values import dump_arguments, load_arguments, load_value

__all__ = ["PREVIOUS", "dump_arguments_before", "load_arguments_after", "name_function"]

_NOTHING = Payload(b"")
_before = [_NOTHING]
"""The value of the call before, while arguments are being rebuilt; that never waits, so nobody else looks meanwhile."""


class _Previous:
    """Stands in arguments for a value; unpickled, it is that value."""

    __slots__ = ()

    def __reduce__(self) -> tuple[object, tuple[()]]:
        return _load_before, ()


PREVIOUS = _Previous()
"""Stands for the value of the call before, as a whole argument."""


def dump_arguments_before(args: tuple[object, ...], kwargs: Mapping[str, object], *, what: str) -> bytes | None:
    """The stream of arguments in which `PREVIOUS` stands for a value; None where buffers would travel apart.

    Raises as `dump_arguments` does.
    """
    if len(args) == 1 and args[0] is PREVIOUS and not kwargs:
        return _ALONE
    payload = dump_arguments(args, kwargs, what=what)
    return None if payload.buffers else bytes(payload.data)


def load_arguments_after(payload: Payload, value: Payload) -> tuple[tuple[object, ...], dict[str, object]]:
    """`load_arguments` of arguments in which `PREVIOUS` stands for `value`."""
    _before[0] = value
    try:
        return load_arguments(payload)
    finally:
        _before[0] = _NOTHING


def name_function(module: str, name: str) -> FunctionBlob:
    """The bytes of a function that this process need not have, by the names by which a receiver imports it."""
    data = pickle.dumps(("name", pickle.dumps((module, name, 0), 5), [], {}), 5)
    return FunctionBlob(hashlib.sha256(data).digest()[:16], data)


def _load_before() -> object:
    return load_value(_before[0])


_ALONE = pickle.dumps(((PREVIOUS,), {}), 5)
"""The stream of the arguments that most links have."""
