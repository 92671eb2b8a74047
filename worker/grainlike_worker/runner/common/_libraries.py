"""Which native libraries are in this process."""

import sys
from collections.abc import Iterable

__all__ = ["loaded_any"]


def loaded_any(names: Iterable[bytes], *, unknown: bool) -> bool:
    """Whether one is loaded whose path has any of `names` in it; `unknown` where the system does not say."""
    if sys.platform != "linux":
        return unknown
    with open("/proc/self/maps", "rb") as maps:  # noqa: PTH123 - pathlib costs more than the reading
        text = maps.read()
    return any(name in text for name in names)
