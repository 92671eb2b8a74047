"""Counters, timelines and traces of what ran, from data that the other rooms pass in.

Answers: which job ran on which cores and when (`Span`, `span_of`), what that looks like, as a picture (`timeline`) and
in the viewers of traces (`trace`), and how far calls are that still run (`ProgressCounter`).

Never waits, asks a worker, or looks at a clock: it takes finished facts and returns text. Stands beside `net`, on
`graph`, whose `Info` it reads; `cli` prints what it draws.
"""

from grainlike.observe._progress import CallCounts, FunctionProgress, ProgressCounter
from grainlike.observe._progress_views import as_html, as_line, as_table
from grainlike.observe._span import Lane, Span, span_of
from grainlike.observe._stretch import Depth, Stretch, depths, spans_from_history, spans_from_rows
from grainlike.observe._timeline import timeline
from grainlike.observe._trace import trace

__all__ = [
    "CallCounts",
    "Depth",
    "FunctionProgress",
    "Lane",
    "ProgressCounter",
    "Span",
    "Stretch",
    "as_html",
    "as_line",
    "as_table",
    "depths",
    "span_of",
    "spans_from_history",
    "spans_from_rows",
    "timeline",
    "trace",
]
