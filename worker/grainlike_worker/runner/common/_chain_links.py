"""Running link of a chain, for a runner of its own, which attributes output by it."""

from collections.abc import Callable

__all__ = ["begins", "ended", "listen"]


def _nobody(job: int) -> None:
    pass


_begins: Callable[[int], None] = _nobody
_ended: Callable[[int], None] = _nobody


def listen(begins: Callable[[int], None], ended: Callable[[int], None]) -> None:
    """From now on, call these with the number of the link's job. One listener for a process."""
    global _begins, _ended
    _begins, _ended = begins, ended


def begins(job: int) -> None:
    """The link with this job's number begins."""
    _begins(job)


def ended(job: int) -> None:
    """Record that a link has ended, and nothing of it runs any more but what it left behind."""
    _ended(job)
