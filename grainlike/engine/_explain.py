"""Explanations of placeholders that are no jobs yet, or never will be, and of errors of operators: read from the graph
alone.
"""

from __future__ import annotations

import time
from contextlib import suppress

from grainlike.engine._local_calls import LocalCall
from grainlike.graph import Node, RemoteValue, RunsIn, State, ValueFetcher
from grainlike.jobs import Job
from grainlike.resources import EMPTY
from grainlike.scheduler import Explanation

__all__ = ["explain_unsubmitted", "maker_again", "note_operator", "value_words"]

_SHOWN = 4
"""Number of values that a note names."""


def explain_unsubmitted(node: Node) -> Explanation | None:
    """Return where a placeholder stands and what it waits for; None for a job that has not ended."""
    request = node.request if node.request is not None else EMPTY
    if node.finished or node.state is State.LAZY:
        return Explanation(0, node.state.label, 0, request)
    waiting = tuple(dep.function.name for dep in node.deps if not dep.finished)
    if waiting:
        return Explanation(0, "inputs", 0, request, inputs=waiting)
    job = node.record
    if isinstance(job, LocalCall) and job.again_at is not None:
        wait, most = max(0.0, job.again_at - time.monotonic()), 1 + node.function.options.retry.times
        return Explanation(0, "local", job.attempt + 1, request, "backoff", starts_in_s=wait, attempts=most)
    if not isinstance(job, Job):
        return Explanation(0, "unsent" if node.place is RunsIn.REMOTE else "local", 0, request)
    return None


def maker_again(node: Node, fetcher: ValueFetcher | None) -> int:
    """Return the number of the job that would make the value of a node again at the executor of `fetcher`: no worker
    has it. 0 for all others.
    """
    value = node.reference
    if fetcher is None or type(value) is not RemoteValue or value.fetcher is not fetcher:
        return 0
    return 0 if fetcher.where(value.id) else value.id


def value_words(node: Node, again: str = "") -> str:
    """Return text on a value that stays at workers: its size, where it is, why it was made again; empty for others.
    `again` explains the job that makes it again now, if there is one.
    """
    value = node.reference
    if type(value) is not RemoteValue:
        return ""
    ways = "made again, or read from its copy" if value.copy else "made again"
    place = f"is at no worker now, and is {ways}: {again}" if again else f"{_whereabouts(value, ways)}."
    words = f"Its value, {value.size:,} bytes, {place}"
    if value.copy:
        words += f" A copy of it was written to {value.copy}."
    few = value.fetcher.why_few(value.id)
    if few:
        words += f" It has fewer replicas than it is to have: {few}."
    count = 0 if node.record is None else node.record.recomputed
    if not count:
        return words
    times = "once" if count == 1 else f"{count} times"
    return f"{words} It ran again {times}: workers were lost that alone had its value."


def _whereabouts(value: RemoteValue, ways: str) -> str:
    where, here = value.fetcher.where(value.id), value.fetched
    if where:
        return f"is at {', '.join(where)}{', and in this program' if here else ''}"
    lost = value.fetcher.why_lost(value.id)
    if lost:
        left = "; this program has it" if here else ""
        return f"is lost at all workers, and can never be made again: {lost}{left}"
    here_too = "in this program, and " if here else ""
    return f"is {here_too}at no worker now: if a job needs it, it is {ways} where it can be"


def note_operator(error: BaseException, node: Node) -> None:
    """Add to the error of an operator a line on which calls gave the values that it was applied to."""
    calls = [_call(dep) for dep in dict.fromkeys(node.deps)]
    if not calls:
        return  # on values that the program had given
    names = ", ".join(calls[:_SHOWN]) + (", ..." if len(calls) > _SHOWN else "")
    what = "an index" if node.function.name == "getitem" else f"operator {node.function.name}"
    with suppress(Exception):  # an exception of the user's may take no notes
        error.add_note(f"grainlike: {what}, in this program, on the value of {names}")


def _call(node: Node) -> str:
    number = node.record.job if isinstance(node.record, Job) else 0
    return f"{node.function.name} (job {number})" if number else node.function.name
