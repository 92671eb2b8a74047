"""Pickles of plain data, read without running any code."""

import io
import pickle
from typing import Any, NoReturn

from grainlike.payload._payload import Buffer

__all__ = ["PlainReader", "plain_arguments"]

_SMALL = 4096
"""Most bytes of arguments that are read to be shown."""


class PlainReader(pickle.Unpickler):
    """Reads containers, numbers, text and bytes only; no name is looked up, so no code runs."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"{module}.{name} among plain data")


def plain_arguments(data: Buffer) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return the arguments in the bytes of `dump_arguments`, if they are plain data and at most 4 KiB; else None.

    >>> plain_arguments(dump_plain_arguments((1, "a")))
    ((1, 'a'), {})
    """
    if not 0 < len(data) <= _SMALL:
        return None
    try:
        args, kwargs = PlainReader(io.BytesIO(data)).load()
    except Exception:  # noqa: BLE001 - payloads of other kinds fail in many ways
        return None
    return (args, kwargs) if type(args) is tuple and type(kwargs) is dict else None
