"""Running link of a chain, for a runner of its own, which attributes output by it."""

from collections.abc import Callable

__all__ = ["begins", "ended", "listen"]


def _nobody(job: int, text: str = "") -> None:
    pass


begins: Callable[[int], None] = _nobody
"""Function that is called with the number of a link's job as the link begins."""

ended: Callable[[int, str], None] = _nobody
"""Function that is called with the same as the link has ended, and with the text of the exception that has ended it, ""
without one. Nothing of the link runs any more but what it left behind.
"""


def listen(to_begins: Callable[[int], None], to_ended: Callable[[int, str], None]) -> None:
    """Have these called as `begins` and `ended` from now on. There is one listener in a process."""
    global begins, ended
    begins, ended = to_begins, to_ended
