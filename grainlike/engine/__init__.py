"""Runs a graph: which nodes are ready, who waits for them, calls in this process, streams.

Answers: how a placeholder is resolved (`_engine`, `_resolver`), how calls without resources run (`_local_calls`), how
items of streams are kept and read (`_stream_buffer`, `_stream_reader`, `_local_streams`), and what is logged of
errors that were never retrieved (`_unretrieved`), and how values that stay at workers come here (`_fetches`). The
engine does not depend on where jobs run.
"""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.engine._engine import Engine
    from grainlike.engine._explain import explain_unsubmitted, maker_again, value_words
    from grainlike.engine._fetches import Fetcher, ValueSource, bring, copy_made, replicate_values, staying_values
    from grainlike.engine._interfaces import QUIET_S, JobRunner
    from grainlike.engine._left_to_jobs import least_request
    from grainlike.engine._local_calls import LocalCall, LocalCalls
    from grainlike.engine._resolver import BaseResolver, Waitable
    from grainlike.engine._streams import ReaderWakeup, buffer_of
    from grainlike.engine._thread_call import ThreadCall, this_call
    from grainlike.engine._unretrieved import log_left_calls, retrieved_elsewhere

__all__ = [
    "QUIET_S",
    "BaseResolver",
    "Engine",
    "Fetcher",
    "JobRunner",
    "LocalCall",
    "LocalCalls",
    "ReaderWakeup",
    "ThreadCall",
    "ValueSource",
    "Waitable",
    "bring",
    "buffer_of",
    "copy_made",
    "explain_unsubmitted",
    "least_request",
    "log_left_calls",
    "maker_again",
    "replicate_values",
    "retrieved_elsewhere",
    "staying_values",
    "this_call",
    "value_words",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "ReaderWakeup": "_streams",
            "Engine": "_engine",
            "JobRunner": "_interfaces",
            "Fetcher": "_fetches",
            "ValueSource": "_fetches",
            "LocalCall": "_local_calls",
            "LocalCalls": "_local_calls",
            "QUIET_S": "_interfaces",
            "explain_unsubmitted": "_explain",
            "BaseResolver": "_resolver",
            "Waitable": "_resolver",
            "log_left_calls": "_unretrieved",
            "retrieved_elsewhere": "_unretrieved",
            "staying_values": "_fetches",
            "ThreadCall": "_thread_call",
            "bring": "_fetches",
            "buffer_of": "_streams",
            "copy_made": "_fetches",
            "least_request": "_left_to_jobs",
            "maker_again": "_explain",
            "replicate_values": "_fetches",
            "this_call": "_thread_call",
            "value_words": "_explain",
        },
    )
