"""How many threads native libraries shall use on an allocation, in the variables that they read."""

from grainlike.resources._allocation import Allocation

__all__ = ["WIDTHS", "thread_widths"]

WIDTHS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "BLIS_NUM_THREADS",
)
"""What native libraries read when they are loaded, and children when they start."""


def thread_widths(allocation: Allocation) -> dict[str, str]:
    """The environment of a program on this allocation: as many threads as it has cores, and one where it has none.

    >>> from grainlike.resources import parse_allocation
    >>> thread_widths(parse_allocation("cores=[4,6]"))["OMP_NUM_THREADS"]
    '2'
    """
    return dict.fromkeys(WIDTHS, str(max(1, len(allocation.cores))))
