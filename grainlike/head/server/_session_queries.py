"""Answers of a head about its named sessions, and about the calls in them."""

from __future__ import annotations

from collections.abc import Mapping

from grainlike.head import Head
from grainlike.head.server._sessions import KeptFile, NamedCall, Sessions
from grainlike.jobs import value_of
from grainlike.wire import AskNamed, AskSessions, EndedJob, JobRow, NamedAre, NamedRow, SessionsAre

__all__ = ["SessionQuestion", "answer_about_sessions"]

SessionQuestion = AskSessions | AskNamed

_ROWS = 100
"""Most calls in one answer: those that have ended are looked for in the history, and the head does nothing else
meanwhile.
"""

_STATES = {"succeeded": "succeeded", "cancelled": "cancelled", "skipped": "cancelled"}
"""States of placeholders, by the outcomes of their jobs; all others have failed."""


def answer_about_sessions(
    question: SessionQuestion, sessions: Sessions, head: Head, limit: int
) -> SessionsAre | NamedAre:
    """Return the answer to a question about sessions, which may keep `limit` bytes of outcomes."""
    now = head.now()
    if isinstance(question, AskSessions):
        return SessionsAre(question.ask, [session.row(now, limit) for session in sessions])
    session = sessions.find(question.session)
    calls = [] if session is None else session.calls(question.names)
    later = [call for call in calls if call.child > question.after]
    part = later[:_ROWS]
    ended = head.history.find_all(call.job for call in part if call.job)
    rows = [_row(call, head, now, ended) for call in part]
    return NamedAre(question.ask, rows, part[-1].child if len(later) > _ROWS else 0)


def _row(call: NamedCall, head: Head, now: float, ended: Mapping[int, EndedJob]) -> NamedRow:
    """Return what is known of a call. Its outcome counts more than its job: that may be made again for its value."""
    live, past = None, ended.get(call.job)
    if call.outcome is None and past is None and call.job:
        live = head.view.row(call.job, now)
    # By the calendar: the clock of a head that is started again does not count the time that its machine was off.
    ago = 0.0 if past is None else max(0.0, sum(head.history.moment()) - past.ended_at)
    state = _state(call, live, past)
    size, where = _value(call, head) if state == "succeeded" else (-1, [])
    return NamedRow(call.name, call.function, state, call.job, live, past, ago, size, where)


def _state(call: NamedCall, live: JobRow | None, past: EndedJob | None) -> str:
    if past is not None:
        return _STATES.get(past.outcome, "failed")
    if call.outcome is None:
        return "pending" if live is None or live.running_s is None else "running"
    if isinstance(call.outcome, KeptFile):
        return "lazy"  # whether it is a value or an error is known when it is read
    return "succeeded" if call.outcome[0].good[0] else "failed"


def _value(call: NamedCall, head: Head) -> tuple[int, list[str]]:
    """Return how many bytes the value of a call has, and the workers at which it stays."""
    if isinstance(call.outcome, tuple):
        value = value_of(call.outcome[0], 0)
        if value:
            return call.outcome[0].sizes[0], head.state.workers_with(value)
    return call.size, []
