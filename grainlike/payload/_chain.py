"""Arguments that are not there yet: the value of the call before is put in its place when the arguments are rebuilt.

Calls that each need the value of the call before may travel together. In the place of that value, the arguments hold
`PREVIOUS`. `load_arguments_after` rebuilds them with a copy of the value, made from its bytes, as if the value had
travelled. So a call that changes its arguments changes nothing for others.
"""

import pickle
from collections.abc import Mapping, Sequence

from grainlike.payload._functions import FunctionBlob
from grainlike.payload._payload import Buffer, Payload
from grainlike.payload._values import dump_arguments, load_arguments, load_value

__all__ = ["ONLY_PREVIOUS", "PREVIOUS", "dump_arguments_before", "load_arguments_after", "name_function"]

_Packed = tuple[Buffer, Sequence[Buffer]]
"""A `Payload`, or the parts of one."""

_NOTHING = Payload(b"")
_before: list[_Packed] = [_NOTHING]
"""Value of the call before, while arguments are rebuilt. Rebuilding never waits, so no other task sees it."""


def _load_before() -> object:
    return load_value(_before[0])


class _Previous:
    """Stands in arguments for a value; unpickled, it is that value."""

    __slots__ = ()

    def __reduce__(self) -> tuple[object, tuple[()]]:
        return _load_before, ()


PREVIOUS = _Previous()
"""Stands for the value of the call before, as a whole argument."""

ONLY_PREVIOUS = pickle.dumps(((PREVIOUS,), {}), 5)
"""Stream of the arguments that most calls of a chain have: that value alone."""


def dump_arguments_before(args: tuple[object, ...], kwargs: Mapping[str, object], *, what: str) -> bytes | None:
    """Return the stream of arguments in which `PREVIOUS` stands for a value; None if buffers would stay outside.

    Raises the exceptions of `dump_arguments`.
    """
    if len(args) == 1 and args[0] is PREVIOUS and not kwargs:
        return ONLY_PREVIOUS
    payload = dump_arguments(args, kwargs, what=what)
    return None if payload.buffers else bytes(payload.data)


def load_arguments_after(payload: Payload, value: _Packed) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return the arguments like `load_arguments`, with `value` in place of `PREVIOUS`."""
    _before[0] = value
    try:
        return load_arguments(payload)
    finally:
        _before[0] = _NOTHING


def name_function(module: str, name: str) -> FunctionBlob:
    """Return the bytes of a function by the names by which a receiver imports it; it need not be importable here."""
    import hashlib  # OpenSSL comes with it, and processes of jobs need none

    data = pickle.dumps(("name", pickle.dumps((module, name, 0), 5), [], {}), 5)
    return FunctionBlob(hashlib.sha256(data).digest()[:16], data)
