"""Questions that are asked again over another link: whose answer is there is not, and no line of a log comes twice."""

from __future__ import annotations

import pytest

from grainlike.client import _queries
from grainlike.client._queries import LogSubscription, PendingQuery
from grainlike.wire import AskHead, AskLogs, Done, LogsAre

pytestmark = pytest.mark.anyio


def lines(*texts: str, attempt: int = 1, end: bool = False) -> LogsAre:
    return LogsAre(7, list(texts), [attempt] * len(texts), ["stdout"] * len(texts), end)


async def told(asked: PendingQuery, answers: int) -> list[str]:
    found = [await asked.next() for _ in range(answers)]
    return [line for answer in found if isinstance(answer, LogsAre) for line in answer.lines]


async def test_what_was_answered_is_not_asked_again() -> None:
    asked = PendingQuery(AskHead(1))
    assert asked.again() == AskHead(1)
    asked.take(Done(1))
    assert asked.again() is None
    assert await asked.next() == Done(1)


async def test_lines_that_were_told_are_left_out_when_they_come_again() -> None:
    asked = LogSubscription(AskLogs(7, 1, True))
    asked.take(lines("a", "a"))
    asked.take(lines("a", attempt=2))
    assert asked.again() == AskLogs(7, 1, True)
    asked.take(lines("a", "a", "a", "b"))
    asked.take(lines("a", "c", attempt=2))
    assert await told(asked, 4) == ["a", "a", "a", "a", "b", "c"]
    asked.take(lines(end=True))
    assert asked.again() is None


async def test_of_long_output_it_is_said_that_it_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_queries, "KEPT", 2)
    asked = LogSubscription(AskLogs(7, 1, True))
    asked.take(lines("long"))
    assert asked.again() == AskLogs(7, 1, True)
    asked.take(lines("long"))
    first, note, again = await told(asked, 3)
    assert (first, again) == ("long", "long")
    assert "follows again" in note
