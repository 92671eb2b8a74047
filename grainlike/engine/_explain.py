"""Explanations of placeholders that are no jobs yet, or never will be: read from the graph alone."""

from __future__ import annotations

import time

from grainlike.engine._local_calls import LocalCall
from grainlike.graph import Node, RunsIn, State
from grainlike.jobs import Job
from grainlike.resources import EMPTY
from grainlike.scheduler import Explanation

__all__ = ["explain_unsubmitted"]


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
