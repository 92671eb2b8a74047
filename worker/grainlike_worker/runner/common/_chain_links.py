"""Running link of a chain, for a runner of its own, which attributes output by it."""

from collections.abc import Callable

__all__ = ["begins", "ended", "listen"]


def _nobody(job: int, text: str = "") -> None:
    pass


begins: Callable[[int], None] = _nobody
"""Called with the job's number of a link that begins."""

ended: Callable[[int, str], None] = _nobody
"""Called with that of a link that has ended, and the text of the exception that has ended it, if one has, else "".
Nothing of it runs any more but what it left behind.
"""


def listen(to_begins: Callable[[int], None], to_ended: Callable[[int, str], None]) -> None:
    """From now on, these are called: `begins` and `ended`. One listener for a process."""
    global begins, ended
    begins, ended = to_begins, to_ended
