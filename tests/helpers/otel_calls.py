"""Calls of the tests of spans: a process that runs one imports what it takes, and nothing of the tests."""

from __future__ import annotations

import time

from opentelemetry import trace

from grainlike import Cores, delayed

__all__ = ["ids", "ids_in_a_process", "parent_in_a_process", "slow"]


def ids() -> tuple[int, int]:
    context = trace.get_current_span().get_span_context()
    return context.trace_id, context.span_id


@delayed
def ids_in_a_process(x: int = 0) -> tuple[int, int]:
    return ids()


@delayed(timeout=0.05)
def slow() -> None:
    time.sleep(60)


@delayed(isolate=True)
async def parent_in_a_process() -> tuple[tuple[int, int], tuple[int, int]]:
    return ids(), await (ids_in_a_process @ Cores(1))()
