"""Running link of a chain, for a runner of its own, which attributes output by it."""

from collections.abc import Callable

__all__ = ["begins", "ended", "listen"]


def _nobody(job: int, text: str = "") -> None:
    pass


_begins: Callable[[int], None] = _nobody
_ended: Callable[[int, str], None] = _nobody


def listen(begins: Callable[[int], None], ended: Callable[[int, str], None]) -> None:
    """From now on, call these with the number of the link's job, and `ended` with the text of the exception that has
    ended it, if one has. One listener for a process.
    """
    global _begins, _ended
    _begins, _ended = begins, ended


def begins(job: int) -> None:
    """The link with this job's number begins."""
    _begins(job)


def ended(job: int, text: str = "") -> None:
    """Record that a link has ended, by an exception of this text if there is one, and nothing of it runs any more but
    what it left behind.
    """
    _ended(job, text)
