"""Schema of a head's journal: under which names images keep which fields of which classes, and how old ones are read.

A journal of schema `SCHEMA` is read by each release of that schema, whatever its version. One of an older schema is
read where `CONVERSIONS` leads from there to `SCHEMA`; all others are refused.

Raise `SCHEMA`, and tell how to convert what was written before, when

- a class that may be in an image gains, loses or renames a field: `RECORDS` of `_schema_scheduler` or `_schema_head`;
- an input (`_records`), or a message inside one, changes otherwise than by a last field with a default;
- a head decides otherwise than before from the same inputs, so a replay of the log would not lead to the same state.
  What was written before is replayed by the rule of before (`DurableHead.decide_as`).

Rename classes, attributes and methods in the code as you like: in the line of a class its place in the code stands
behind its record's name, and `field=attribute` is a field that the code calls otherwise::

    Grant resources._ledger.Grant: owner amounts since=_began
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from grainlike._version import __version__
from grainlike.errors import JournalError
from grainlike.head._kept_calls import KeptCalls
from grainlike.head.durable import _schema_head, _schema_scheduler
from grainlike.head.values._owners import ValueOwners
from grainlike.jobs import CallGraph
from grainlike.journal import Conversion, Record
from grainlike.scheduler._workers import UNLIMITED
from grainlike.scheduler.planning._dormant import DormantClasses, Look
from grainlike.scheduler.values._primaries import Primaries

__all__ = ["CONVERSIONS", "METHODS", "SCHEMA", "SchemaConversion", "check_schema", "conversions_from", "records"]

SCHEMA = 9


def _as_it_is(record: bytes) -> bytes:
    return record


@dataclass(frozen=True, slots=True)
class SchemaConversion:
    """Step from one schema to the next: of the image, and of each record of the log as bytes (see `_records`)."""

    image: Conversion = field(default_factory=Conversion)
    record: Callable[[bytes], bytes] = _as_it_is


def _put(**values: object) -> Callable[[dict[str, Any]], object]:
    """Return what adds fields with these values to an object, a list or a dict of its own for each."""
    return lambda fields: fields.update(deepcopy(values))


_AGES = Conversion(
    fields={
        "HeadJob": lambda fields: fields.update(age=fields["id"]),
        "ExtraState": lambda fields: fields.update(tree_age=fields["root"], size=0),
        "RequestClass": _put(aged=False, early=[], in_order=False),
        "WorkerState": _put(ahead_bytes=0),
    }
)
"""Schema 2: a job is as old as its oldest input, and knows whether its arguments are large. Of those that came before
neither is known: each has its own age, and small ones.
"""


def _wire_values(held: dict[str, Any]) -> None:
    """Give a head and its scheduler what they need for values that stay at workers."""
    held["scheduler"].begin_values()
    held.update(kept=KeptCalls(held["functions"]), transfers={}, last_transfer=0)


def _empty(*names: str) -> Callable[[dict[str, Any]], object]:
    """Return what adds empty fields to an object, to be filled when all objects are there."""
    return lambda fields: fields.update(dict.fromkeys(names))


_VALUES = Conversion(
    fields={
        "HeadScheduler": _empty("_gang_events", "_values"),
        "SchedulerState": _empty("homes", "transfers", "values"),
        "Planner": _empty("near"),
        "AheadPlanner": _empty("near"),
        "Reservations": _empty("near"),
        "Catalogue": _put(_near_ids={}),
        "RequestClass": _put(could_since=None, near=0),
        "ExtraState": _put(data=None),
        "Shape": _put(with_inputs=False),
        "HeadState": _wire_values,
        "FunctionTable": _put(large=set()),
        "JobCounters": _put(recomputed=0, sent=0),
        "Placement": _put(size=None, recomputed=0),
        "Totals": _put(moved=0, relayed=0, sent=0, fetched=0, recomputed=0),
    }
)
"""Schema 3: values stay at workers. Those of jobs that came before did not."""


def _reach(fields: dict[str, Any]) -> None:
    """Give the transfers of a scheduler what it knows of the ways between workers."""
    known = fields["_workers"], fields.pop("_rests"), fields.pop("_rate")
    coming: dict[int, int] = {}
    rooms = records()["Rooms"].cls(fields["_workers"], fields["table"], fields["known"], coming)
    fields.update(reach=records()["Reach"].cls(*known), coming=coming, rooms=rooms, turned=[])


def _own_values_and_replicas(held: dict[str, Any]) -> None:
    """Give a head the owners of values that stay, as those of clients did not, and what it needs for replicas that are
    kept and for copies between data servers.
    """
    held.update(direct={}, begun={}, origins={})
    held["owners"] = held["nested"]._owners = ValueOwners()
    held["scheduler"].begin_replication()


_MOVES = Conversion(
    fields={
        "Hello": _put(data="", data_key=b"", store=-1, scratch=0),
        "Welcome": _put(own_values=0),
        "SubmittedFunction": _put(stays=False),
        "Submit": _put(inputs=[], needs=[], goes_on=False),
        "Outcomes": _put(sizes=[]),
        "Unsent": _put(at=0, unreachable=False),
        "WorkerJoined": _put(has_data=False, store=-1, scratch=0),
        "FetchReplicas": _put(relayed=[]),
        "ReplicasFailed": _put(unreachable=False),
        "WorkerState": _put(has_data=False, store=None, over=0, crowded=False, store_left=UNLIMITED),
        "ExtraState": _put(tried=None),
        "ReplicaCopy": _put(direct=False, is_safety=False, size=0),
        "Transfers": _reach,
        "NearPlacing": _put(look=Look(), rooms=None, _lacked_room=False),
        "ValueState": _put(copies=1, durable=None, unreached=False, first_to=0, origin=0),
        "KeptCalls": _put(_readers={}),
        "JobsRevived": _put(by_copy=False),
        "HeadFunction": _put(gives=0),
        "RequestClass": _put(deferred=None),
        "ValueTable": _put(
            stored={},
            moved={},
            spare={},
            single={},
            bound={},
            cramped={},
            crowded={},
            tight={},
            freed=[],
            placed=[],
            primaries=Primaries(),
            filled={},
        ),
        "ChangeLog": _put(shifts=0),
        "Patience": _put(passed=[]),
        "WaitingClasses": _put(dormant=DormantClasses()),
        "Planner": _empty("consumers", "_resting"),
        "AheadPlanner": _empty("consumers"),
        "Values": _empty("_leaving", "_replication", "_spares", "_unseen", "misfits", "room_wake"),
        "SchedulerState": _empty("leaving", "overdrafts", "relocations", "replication", "spares"),
        "HeadScheduler": _empty("_worker_events"),
        "HeadState": _own_values_and_replicas,
        "RelayedJobs": _put(_owners=None, _graphs={}),
        "NamedSession": _put(graph=CallGraph()),
        "RelayedJob": _put(request=""),
        "LinkTransfer": _put(client=None, mapped=False, sender=None),
    }
)
"""Schema 4: values go from worker to worker, and those of clients stay, which may have some of their own. Workers that
came before had no data server.
"""

_RULES = Conversion(fields=dict.fromkeys(["FunctionDefined", "FunctionTable", "HeadFunction"], _put(quick_s=0.1)))
"""Schema 5: a head decides by the rules of who wrote its journal, and functions that it knows keep them."""


def _wait_for_ever(held: dict[str, Any]) -> None:
    held["scheduler"].decide_as(5)


_UNPAID = Conversion(fields={"Overdrafts": _put(gives_up=False, still=None), "HeadState": _wait_for_ever})
"""Schema 6: jobs that wait for an overdraft are given up if nothing can pay it back. Heads before let them wait."""

_ASIDE = Conversion(fields={"Transfers": _put(rules=6)})
"""Schema 7: a job whose inputs cannot be copied for now waits outside its queue; no crowd is sent to an idle worker.
Before, others waited behind such a job, and all jobs near an idle worker were sent there.
"""

_TIERS = Conversion(
    fields={
        "Rooms": _put(rules=7, refusals={}),
        "Overdrafts": lambda fields: fields.pop("gives_up"),
        "ReplicasFailed": _put(refused=False),
    }
)
"""Schema 8: copies for safety leave the room alone that is kept for a job, and inputs have room only where each fits
into one tier. Jobs do not keep room for an input that is made again. Own values travel with a job that nothing could
make room for. A job has no room for a while where an input was refused. Before, copies took the room that was kept, the
bytes that were free in all tiers together counted, such a job waited for a worker, and after a refusal the pair rested.
"""

_LAPSES = Conversion()
"""Schema 9: a refusal lapses even if no job waits outside its queue, and jobs wait for room for their values only where
their inputs have some, too. Before, jobs waited for such a worker for ever. Passes use the index of waiting classes
from 17 of them on. Before, they did from 65 on, which may give another order where programs have used the same. What is
named in images is the same.
"""

CONVERSIONS: dict[int, SchemaConversion] = {
    1: SchemaConversion(image=_AGES),
    2: SchemaConversion(image=_VALUES),
    3: SchemaConversion(image=_MOVES),
    4: SchemaConversion(image=_RULES),
    5: SchemaConversion(image=_UNPAID),
    6: SchemaConversion(image=_ASIDE),
    7: SchemaConversion(image=_TIERS),
    8: SchemaConversion(image=_LAPSES),
}
"""Steps to the next schema, by the schema that each begins with."""

METHODS = {"next_job": "next_job", "_tell": "_tell", "is_first": "is_first"}
"""Attributes of the methods that objects of an image hold, by their names there."""


@cache
def records() -> dict[str, Record]:
    """Return all classes that may be in an image, by the names of their records."""
    lines = (_schema_scheduler.RECORDS + _schema_head.RECORDS).replace("\n    ", " ").split("\n")
    return dict(_record(line) for line in lines if line)


def _record(line: str) -> tuple[str, Record]:
    head, _, fields = line.partition(":")
    name, place = head.split()
    module, _, cls = place.rpartition(".")
    pairs = [field.partition("=") for field in fields.split()]
    names = tuple(name for name, _, _ in pairs)
    attributes = tuple(attribute or name for name, _, attribute in pairs)
    return name, Record(getattr(import_module(f"grainlike.{module}"), cls), names, attributes)


def check_schema(schema: int | str, version: str) -> None:
    """Raise `JournalError` unless a journal of this schema, which grainlike `version` wrote, can be read here."""
    number = schema if isinstance(schema, int) else 0  # a text: before schemas had numbers
    words = f"this journal has schema {number}, of grainlike {version}, and grainlike {__version__} has schema {SCHEMA}"
    if number > SCHEMA:
        raise JournalError(f"{words}: start it with that release or a later one, or begin a new journal")
    if any(step not in CONVERSIONS for step in range(number, SCHEMA)):
        raise JournalError(
            f"{words}, which has no conversion from there: let that release end its work, or begin a new journal"
        )


def conversions_from(schema: int) -> list[SchemaConversion]:
    """Return the steps that lead from a schema to `SCHEMA`."""
    return [CONVERSIONS[step] for step in range(schema, SCHEMA)]
