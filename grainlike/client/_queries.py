"""Pending queries of a client, which are resent where a link was lost with them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

import anyio
from msgspec.structs import replace

from grainlike.wire import Answer, AskOutcome, LogsAre, OutcomeIs, Question

__all__ = ["LiveSubscription", "LogSubscription", "OutcomeFetch", "PendingQuery"]

KEPT = 1024 * 1024
"""Bytes of a job's output that a worker keeps from its beginning on: what follows may differ when sent again."""

MOST_UPDATES = 500
"""Updates of a live view that wait for their reader at most."""


class PendingQuery:
    """Pending query. `heard` is called with each answer when it comes, before anything that has come after it."""

    __slots__ = ("_answers", "_arrived", "_heard", "_over", "question")

    def __init__(self, question: Question, heard: Callable[[Answer], object] | None = None) -> None:
        self.question = question
        self._heard = heard
        self._answers: deque[Answer] = deque()
        self._arrived = anyio.Event()
        self._over = False

    def again(self) -> Question | None:
        """Return the query to resend over another link; None where the answer has come."""
        return None if self._answers else self.question

    def take(self, answer: Answer) -> None:
        """Take an answer."""
        if self._heard is not None:
            self._heard(answer)
        self._answers.append(answer)
        self._arrived.set()

    def end(self) -> None:
        """End the query: no more answers come."""
        self._over = True
        self._arrived.set()

    async def next(self) -> Answer | None:
        """Return the next answer; None when the conversation has ended without one."""
        while not self._answers and not self._over:
            self._arrived = anyio.Event()
            await self._arrived.wait()
        return self._answers.popleft() if self._answers else None


class LogSubscription(PendingQuery):
    """Log subscription: resent it is answered from the beginning, and lines that were delivered are left out."""

    __slots__ = ("_ended", "_size", "_skip", "_told")

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self._told: Counter[tuple[int, str]] = Counter()
        """Number of lines received, by attempt and stream."""
        self._skip: Counter[tuple[int, str]] = Counter()
        self._size = 0
        self._ended = False

    def again(self) -> Question | None:
        if self._ended:
            return None
        self._skip = self._told.copy()
        if self._size > KEPT:
            self._skip.clear()
            words = "[the link to the head broke: what is kept of its output follows again]"
            super().take(LogsAre(0, [words], [max(self._told)[0]], ["note"], False))
        return self.question

    def take(self, answer: Answer) -> None:
        if isinstance(answer, LogsAre):
            self._ended = answer.end
            told = zip(answer.lines, answer.attempts, answer.streams, strict=True)
            fresh = [row for row in told if self._is_new(*row)]
            lines, attempts, streams = map(list, zip(*fresh, strict=True)) if fresh else ([], [], [])
            answer = replace(answer, lines=lines, attempts=attempts, streams=streams)
        super().take(answer)

    def _is_new(self, line: str, attempt: int, stream: str) -> bool:
        key = (attempt, stream)
        if self._skip[key] > 0:
            self._skip[key] -= 1
            return False
        self._told[key] += 1
        self._size += len(line) + 1
        return True


class LiveSubscription(PendingQuery):
    """Subscription to a live view: resent it starts again, with the full state.

    `behind` is True once more updates waited for their reader than are kept: it takes a new subscription to go on.
    """

    __slots__ = ("behind",)

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.behind = False

    def again(self) -> Question:
        self._answers.clear()
        return self.question

    def take(self, answer: Answer) -> None:
        if len(self._answers) >= MOST_UPDATES:
            self._answers.clear()
            self.behind = True
        if not self.behind:
            super().take(answer)


class OutcomeFetch(PendingQuery):
    """A question for an outcome: asked again it is answered from where the answers ended."""

    __slots__ = ("_at", "_ended")

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self._at = 0
        self._ended = False

    def again(self) -> Question | None:
        assert isinstance(self.question, AskOutcome)
        return None if self._ended else replace(self.question, at=self._at)

    def take(self, answer: Answer) -> None:
        if isinstance(answer, OutcomeIs):
            if answer.at + len(answer.data) <= self._at and not answer.end:
                return
            answer = replace(answer, data=answer.data[max(0, self._at - answer.at) :])
            self._at += len(answer.data)
            self._ended = answer.end
        else:
            self._ended = True
        super().take(answer)
