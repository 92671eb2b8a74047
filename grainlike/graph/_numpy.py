"""NumPy's functions on placeholders, by NumPy's own protocols, without importing NumPy."""

from __future__ import annotations

from ._placeholder import Placeholder

__all__ = ["NumpyProtocols"]


class NumpyProtocols(Placeholder):
    """What NumPy calls instead of computing."""

    __slots__ = ()
