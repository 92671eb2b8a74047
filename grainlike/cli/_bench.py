"""Benchmarks of `grainlike bench`, which are a distribution of their own."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

__all__ = ["MISSING", "load_benchmarks"]

_PACKAGE = "grainlike_bench"

MISSING = """\
The benchmarks are not installed here: they are the distribution grainlike-bench, and not part of grainlike's wheel.
Install them from the folder benchmarks of the sources, a checkout or an unpacked sdist, of the same version:

    pip install ./benchmarks
"""


def load_benchmarks() -> ModuleType | None:
    """Import the benchmarks and return their module `compare`; None, with a word on standard error, without them."""
    try:
        return import_module(f"{_PACKAGE}.compare")
    except ModuleNotFoundError as error:
        if error.name != _PACKAGE:
            raise
        sys.stderr.write(MISSING)
        return None
