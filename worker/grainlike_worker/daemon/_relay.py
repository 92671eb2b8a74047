"""Streams on their way through the daemon: items up to the head, credit down to the runner that works for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from grainlike.wire import Buffer, Credit, Items

__all__ = ["Relay"]


class Relay:
    """Knows which runner a stream comes from, from its first item to its end. False while no stream runs."""

    __slots__ = ("_post", "_runners")

    def __init__(self, post: Callable[[Items, Sequence[Buffer]], None]) -> None:
        self._post = post
        self._runners: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._runners)

    def up(self, runner: int, message: Items, buffers: Sequence[Buffer]) -> None:
        """Send items on at once: at most a window of them is on its way, so nothing piles up here."""
        self._runners[message.job] = runner
        self._post(message, buffers)

    def runner(self, message: Credit) -> int | None:
        """The runner that the credit is for; None when the stream has ended."""
        return self._runners.get(message.job)

    def forget(self, jobs: Iterable[int]) -> None:
        """These have ended."""
        for job in jobs:
            self._runners.pop(job, None)
