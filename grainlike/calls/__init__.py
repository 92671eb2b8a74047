"""Calls at the place where they run, for those that are not sent alone, or not to a grainlike worker.

Answers: how the calls of a part are made one after another (`_part`); how one call is performed in a thread or
process of a backend (`_call`), and how it is ended there (`_child`); what observers set up round a call
(`_surrounded`). It is imported by jobs: it depends on no
executor, and is light.
"""

from grainlike.calls._call import BackendAnswer, BackendCall, CallOutcome, perform
from grainlike.calls._child import CallProcess, CallProcessLostError, run_call
from grainlike.calls._part import CallReport, PartPlan, run_part, run_part_async
from grainlike.calls._surrounded import Surrounding, packed_texts, surrounded

__all__ = [
    "BackendAnswer",
    "BackendCall",
    "CallOutcome",
    "CallProcess",
    "CallProcessLostError",
    "CallReport",
    "PartPlan",
    "Surrounding",
    "packed_texts",
    "perform",
    "run_call",
    "run_part",
    "run_part_async",
    "surrounded",
]
