"""Lazy loading of a room's names on first use, so that what few programs use costs the others nothing at the start."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["later"]


def later(room: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package (PEP 562): `names` maps each lazily loaded name to its module.

    Raises:
        AttributeError: when it is asked for any other name.

    Example::

        __getattr__ = later(__name__, {"dry_run": "_dry_run"})
    """

    def load(name: str) -> Any:
        module = names.get(name)
        if module is None:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        value = getattr(import_module(f"{room}.{module}"), name)
        setattr(sys.modules[room], name, value)
        return value

    return load
