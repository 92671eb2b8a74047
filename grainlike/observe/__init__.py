"""Counters, timelines and traces of what ran, from data that the other rooms pass in.

Answers: which job ran on which cores and when (`Span`, `span_of`), what that looks like, as a picture (`timeline`) and
in the viewers of traces (`trace`), how far calls are that still run (`ProgressCounter`), and what jobs used of what
they asked for (`usage_by_function`), and which failed alike (`failures_by_reason`).

Never waits, asks a worker, or looks at a clock: it takes finished facts and returns text. Stands beside `net`, on
`graph`, whose `Info` it reads; `cli` prints what it draws.
"""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.observe._failures import FailureGroup, failures_by_reason
    from grainlike.observe._progress import CallCounts, FunctionProgress, ProgressCounter
    from grainlike.observe._progress_views import as_html, as_line, as_table
    from grainlike.observe._span import Lane, Span, span_of
    from grainlike.observe._stretch import Depth, Stretch, depths, spans_from_history, spans_from_rows
    from grainlike.observe._suggest import suggested_request
    from grainlike.observe._timeline import timeline
    from grainlike.observe._trace import trace
    from grainlike.observe._usage import FunctionUsage, UsageSpread, usage_by_function

__all__ = [
    "CallCounts",
    "Depth",
    "FailureGroup",
    "FunctionProgress",
    "FunctionUsage",
    "Lane",
    "ProgressCounter",
    "Span",
    "Stretch",
    "UsageSpread",
    "as_html",
    "as_line",
    "as_table",
    "depths",
    "failures_by_reason",
    "span_of",
    "spans_from_history",
    "spans_from_rows",
    "suggested_request",
    "timeline",
    "trace",
    "usage_by_function",
]

if not TYPE_CHECKING:  # else any name would be there
    # A command that counts how jobs failed draws nothing, and needs nothing of the graph.
    __getattr__ = later(
        __name__,
        {
            "FailureGroup": "_failures",
            "failures_by_reason": "_failures",
            "CallCounts": "_progress",
            "FunctionProgress": "_progress",
            "ProgressCounter": "_progress",
            "as_html": "_progress_views",
            "as_line": "_progress_views",
            "as_table": "_progress_views",
            "Lane": "_span",
            "Span": "_span",
            "span_of": "_span",
            "Depth": "_stretch",
            "Stretch": "_stretch",
            "depths": "_stretch",
            "spans_from_history": "_stretch",
            "spans_from_rows": "_stretch",
            "suggested_request": "_suggest",
            "timeline": "_timeline",
            "trace": "_trace",
            "FunctionUsage": "_usage",
            "UsageSpread": "_usage",
            "usage_by_function": "_usage",
        },
    )
