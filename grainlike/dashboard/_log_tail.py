"""Tail of a job's log for one page: the last lines, however long the log is and however fast it grows."""

from __future__ import annotations

from collections import deque
from contextlib import aclosing

from grainlike.client import RefusedQueryError
from grainlike.dashboard._feed import HeadFeed
from grainlike.errors import HeadLostError
from grainlike.jobs import LogLine

__all__ = ["LogTail"]

_MOST_LINES = 500
_MOST_CHARS = 2_000
"""Lines that wait to be sent, and characters of one, at most: of more the older lines, and the rest of a line, are
left out.
"""

_ENOUGH = 200
"""Lines of one update."""


class LogTail:
    """Lines of a job's log that a page has not been sent yet, and how many were left out before them."""

    def __init__(self, job: int) -> None:
        self._job = job
        self._lines: deque[LogLine] = deque()
        self._dropped = 0
        self._ended = False
        self._over = False
        self._begins = True

    def begin(self) -> None:
        """Start again: what follows is the log from its beginning, as when the head was away meanwhile."""
        self._lines.clear()
        self._dropped = 0
        self._begins, self._ended, self._over = True, False, False

    def add(self, line: LogLine) -> None:
        """Add a line; the oldest of too many is left out."""
        self._lines.append(line)
        if len(self._lines) > _MOST_LINES:
            self._lines.popleft()
            self._dropped += 1

    def end(self) -> None:
        """End the log: no line follows."""
        self._ended = True

    def take(self, room: int) -> dict[str, object] | None:
        """Return lines of at most `room` bytes of JSON, with how many were dropped before them; None where there are
        none.
        """
        lines: list[list[object]] = []
        while self._lines and len(lines) < _ENOUGH:
            line = self._lines[0]
            text = _shortened(str(line))
            # A character takes six bytes of JSON at most: \u0000.
            room -= 40 + (len(text) if text.isascii() and text.isprintable() else 6 * len(text))
            if room < 0:
                break
            self._lines.popleft()
            lines.append([text, line.attempt, line.stream])
        ended = self._ended and not self._lines and not self._over
        if not (lines or ended):
            return None
        self._over = ended
        told: dict[str, object] = {"lines": lines, "dropped": self._dropped}
        if ended:
            told["end"] = True
        if self._begins:  # a page that lost its stream has lines of the one before
            told["begin"] = True
        self._dropped, self._begins = 0, False
        return told

    async def follow(self, feed: HeadFeed) -> None:
        """Take the job's lines from the head until the log has ended; again when a lost head is back."""
        while True:
            try:
                async with aclosing(feed.client.logs(self._job, follow=True)) as lines:
                    async for line in lines:
                        self.add(line)
                return self.end()
            except RefusedQueryError as error:
                self.add(LogLine(f"[{error}]", 0, "note"))
                return self.end()
            except HeadLostError:
                await feed.back()
                self.begin()


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]} [{len(text) - _MOST_CHARS:,} characters more]"
