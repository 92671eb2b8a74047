"""Calls at the place where they run, for those that are not sent alone, or not to a grainlike worker.

Answers: how the calls of a part are made one after another (`_part`); how one call is performed in a thread or
process of a backend (`_call`), and how it is ended there (`_child`); what observers set up round a call
(`_surrounded`); how a value is copied to a URL, and read there (`_url_copies`). It is imported by jobs: it depends on
no executor, and is light.
"""

from grainlike.calls._call import BackendAnswer, BackendCall, CallOutcome, perform
from grainlike.calls._child import CallProcess, CallProcessLostError, run_call
from grainlike.calls._part import CallReport, PartPlan, run_part, run_part_async
from grainlike.calls._surrounded import Surrounding, packed_texts, surrounded
from grainlike.calls._url_copies import UrlCopy, check_url, read_copy, unescaped, write_copy

__all__ = [
    "BackendAnswer",
    "BackendCall",
    "CallOutcome",
    "CallProcess",
    "CallProcessLostError",
    "CallReport",
    "PartPlan",
    "Surrounding",
    "UrlCopy",
    "check_url",
    "packed_texts",
    "perform",
    "read_copy",
    "run_call",
    "run_part",
    "run_part_async",
    "surrounded",
    "unescaped",
    "write_copy",
]
