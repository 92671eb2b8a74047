"""Output of one job, as `grainlike logs` prints it: with a heading for each attempt, where there were several."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import aclosing

from grainlike.cli._exits import OK
from grainlike.cli._past import attempt_words
from grainlike.cli._words import escaped, escaped_line
from grainlike.client import BlockingClient
from grainlike.jobs import LogLine
from grainlike.wire import AskHistory, HistoryIs

__all__ = ["show_logs"]


async def show_logs(caller: BlockingClient, job: int, *, follow: bool, as_json: bool) -> int:
    """Print what a job has printed, each line where the job wrote it: to standard output, or to standard error, to
    which headings go, too.
    """
    headings = None if as_json else _Headings(await caller.ask(AskHistory(0, 1, job=job), HistoryIs))
    async with aclosing(caller.logs(job, follow=follow)) as lines:
        async for line in lines:
            try:
                if headings is None:
                    _show_json(line)
                else:
                    _show(headings.before(line.attempt))
                    to = sys.stdout if line.stream == "stdout" else sys.stderr
                    print(escaped_line(line), file=to, flush=True)
            except BrokenPipeError:  # the reader has had enough, as `head` has
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                return OK
    if headings is not None:
        _show(headings.rest())
    return OK


def _show_json(line: LogLine) -> None:
    text = json.dumps({"line": str(line), "stream": line.stream, "attempt": line.attempt})
    print(text, flush=True)  # noqa: T201 - a command line speaks


def _show(headings: Iterator[str]) -> None:
    for heading in headings:
        sys.stdout.flush()
        print(escaped(heading), file=sys.stderr, flush=True)  # noqa: T201 - a command line speaks


class _Headings:
    """Headings of the attempts of a job, of which `found` is known; none while there was one attempt."""

    def __init__(self, found: HistoryIs) -> None:
        ended = found.jobs[0] if found.jobs else None
        earlier = found.earlier if ended is None else ended.earlier
        self._words = {one.attempt: attempt_words(one) for one in earlier}
        if ended is not None and ended.attempts > 1:
            why = f": {ended.error}" if ended.error else ""
            self._words[ended.attempts] = f"attempt {ended.attempts}: {ended.outcome}, on worker {ended.worker}{why}"
        self._left = dict.fromkeys(sorted(self._words))
        self._now = 0 if self._words else 1

    def before(self, attempt: int) -> Iterator[str]:
        """Iterate over the headings before a line of an attempt: its own, and those of attempts that wrote nothing."""
        if attempt in (0, self._now):
            return
        self._now = attempt
        for silent in [one for one in self._left if one < attempt]:
            yield self._heading(silent)
        yield self._heading(attempt)

    def rest(self) -> Iterator[str]:
        """Iterate over the headings of the attempts after the last line."""
        for attempt in list(self._left):
            yield self._heading(attempt)

    def _heading(self, attempt: int) -> str:
        self._left.pop(attempt, None)
        return f"[{self._words.get(attempt, f'attempt {attempt}')}]"
