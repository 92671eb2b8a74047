"""Records of jobs: submissions, outcomes, events, totals and the interfaces between those who run and watch them."""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.jobs._ahead import pack_ahead
    from grainlike.jobs._answers import LogLine, ended_jobs
    from grainlike.jobs._call_graph import CallGraph, GraphCall
    from grainlike.jobs._chains import CHAIN_MOST, LinkOutcome, chained_after, follower_of, outcomes_of
    from grainlike.jobs._ended import ended_placements
    from grainlike.jobs._events import Event, Events, Feed, WorkersFeed, start_of
    from grainlike.jobs._interfaces import Lease, Observer, OutcomeListener, Worker
    from grainlike.jobs._job import (
        NO_PARCEL,
        FirstOfChain,
        Job,
        JobCounters,
        Placement,
        close_all,
        note_of,
    )
    from grainlike.jobs._own_arguments import OwnArguments
    from grainlike.jobs._own_values import OwnValueStore
    from grainlike.jobs._pools import Fleet, until_gone
    from grainlike.jobs._records import WorkerInfo
    from grainlike.jobs._repeated import BIG, LARGE, RepeatedArguments, is_big
    from grainlike.jobs._rows import explanation_of, job_is, worker_info, worker_row
    from grainlike.jobs._shipped import Shipped
    from grainlike.jobs._slots import allocation_of, slots_of
    from grainlike.jobs._submission import (
        JobCall,
        outcome_alone,
        outcomes_message,
        pack_calls,
        repacked,
        retry_spec,
        settle_calls,
        submit_calls,
        value_of,
    )

__all__ = [
    "BIG",
    "CHAIN_MOST",
    "LARGE",
    "NO_PARCEL",
    "CallGraph",
    "Event",
    "Events",
    "Feed",
    "FirstOfChain",
    "Fleet",
    "GraphCall",
    "Job",
    "JobCall",
    "JobCounters",
    "Lease",
    "LinkOutcome",
    "LogLine",
    "Observer",
    "OutcomeListener",
    "OwnArguments",
    "OwnValueStore",
    "Placement",
    "RepeatedArguments",
    "Shipped",
    "Worker",
    "WorkerInfo",
    "WorkersFeed",
    "allocation_of",
    "chained_after",
    "close_all",
    "ended_jobs",
    "ended_placements",
    "explanation_of",
    "follower_of",
    "is_big",
    "job_is",
    "note_of",
    "outcome_alone",
    "outcomes_message",
    "outcomes_of",
    "pack_ahead",
    "pack_calls",
    "repacked",
    "retry_spec",
    "settle_calls",
    "slots_of",
    "start_of",
    "submit_calls",
    "until_gone",
    "value_of",
    "worker_info",
    "worker_row",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "BIG": "_repeated",
            "CHAIN_MOST": "_chains",
            "LinkOutcome": "_chains",
            "chained_after": "_chains",
            "follower_of": "_chains",
            "outcomes_of": "_chains",
            "CallGraph": "_call_graph",
            "GraphCall": "_call_graph",
            "LARGE": "_repeated",
            "RepeatedArguments": "_repeated",
            "is_big": "_repeated",
            "Event": "_events",
            "Events": "_events",
            "Feed": "_events",
            "FirstOfChain": "_job",
            "Job": "_job",
            "JobCall": "_submission",
            "Lease": "_interfaces",
            "NO_PARCEL": "_job",
            "Observer": "_interfaces",
            "OutcomeListener": "_interfaces",
            "OwnArguments": "_own_arguments",
            "OwnValueStore": "_own_values",
            "Placement": "_job",
            "Shipped": "_shipped",
            "JobCounters": "_job",
            "Worker": "_interfaces",
            "LogLine": "_answers",
            "WorkerInfo": "_records",
            "WorkersFeed": "_events",
            "start_of": "_events",
            "allocation_of": "_slots",
            "close_all": "_job",
            "ended_jobs": "_answers",
            "ended_placements": "_ended",
            "explanation_of": "_rows",
            "job_is": "_rows",
            "note_of": "_job",
            "outcome_alone": "_submission",
            "outcomes_message": "_submission",
            "pack_ahead": "_ahead",
            "pack_calls": "_submission",
            "repacked": "_submission",
            "retry_spec": "_submission",
            "settle_calls": "_submission",
            "slots_of": "_slots",
            "submit_calls": "_submission",
            "value_of": "_submission",
            "Fleet": "_pools",
            "until_gone": "_pools",
            "worker_info": "_rows",
            "worker_row": "_rows",
        },
    )
