"""Importing an engine's own package, which is an extra."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["extra"]


def extra(module: str, who: str, extra_name: str) -> Any:
    """The module; ModuleNotFoundError that names the extra where it is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name.partition(".")[0]):
            raise  # it is there, and lacks something itself
        raise ModuleNotFoundError(
            f"{who} needs a package that is not installed: pip install 'grainlike[{extra_name}]'", name=error.name
        ) from None
