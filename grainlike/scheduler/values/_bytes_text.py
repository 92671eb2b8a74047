"""Text for numbers of bytes."""

from __future__ import annotations

__all__ = ["bytes_text"]

_STEPS = ((10**9, "GB"), (10**6, "MB"), (10**3, "KB"))


def bytes_text(size: int) -> str:
    """Return a number of bytes with its unit, such as 50 MB or 2.1 GB."""
    for least, unit in _STEPS:
        if size >= least:
            return f"{size / least:.2g} {unit}" if size < 10 * least else f"{size / least:.0f} {unit}"
    return f"{size} bytes"
