"""Explanations of placeholders that are no jobs yet, or never will be: read from the graph alone."""

from __future__ import annotations

import time

from grainlike.engine._local_calls import LocalCall
from grainlike.graph import Node, RemoteValue, RunsIn, State
from grainlike.jobs import Job
from grainlike.resources import EMPTY
from grainlike.scheduler import Explanation

__all__ = ["explain_unsubmitted", "value_words"]


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


def value_words(node: Node) -> str:
    """Return text on a value that stays at workers: its size, where it is, why it was made again; empty for others."""
    value = node.reference
    if type(value) is not RemoteValue:
        return ""
    where = value.fetcher.where(value.id)
    there = (
        f"is at {', '.join(where)}"
        if where
        else "is at no worker now: if it is needed, it is made again where it can be"
    )
    words = f"Its value, {value.size:,} bytes, {there}{', and in this program' if value.fetched else ''}."
    again = 0 if node.record is None else node.record.recomputed
    if not again:
        return words
    times = "once" if again == 1 else f"{again} times"
    return f"{words} It ran again {times}: workers were lost that alone had its value."
