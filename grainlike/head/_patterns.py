"""Shell patterns for names of functions, as clients send them."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate

__all__ = ["matcher"]


def matcher(pattern: str) -> Callable[[str], object]:
    """Return a function that is true for names that match a shell pattern; for all names, if that is empty.

    It compiles the pattern once: many names are compared, and `fnmatchcase` would keep each client's pattern for ever.
    """
    return re.compile(translate(pattern)).match if pattern else lambda name: True  # noqa: ARG005 - the signature
