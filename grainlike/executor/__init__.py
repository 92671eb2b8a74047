"""Joins the minds to waiting: the body of the head, and the resolver that runs a user's graph on it.

Answers: how a placeholder becomes a job and its result a value (`_engine`), how jobs reach workers and come back
(`_head`), who may join (`_door`), how clients of a head ask and submit (`_guests` there, `_caller` and `_connect`
here), what outlives them there (`_sessions`), how a head outlives its process (`_durable_head`, whose inputs are in
`_inputs` and its files in `_keeping`), how items of streams come and are read (`_inlet`, `_reading`), what jobs
print (`_logs`), how a source of any length is mapped in bounded memory (`_flight`), when all of it lives and dies
(`_life`), what users hold (`_executor`) and say when they make it (`_settings`), which executor an `await` means
(`_finding`), and what it is inside a job (`_in_job`, whose calls reach `_nested` at the head). How a graph whose jobs
have names is run, watched and reported on (`_dag`), in parts too (`_parted_run`). How jobs go to an engine of another
kind (`_backend_jobs`). And, for programs that want only admission control, who may have how much of what now (`_pool`).
What would run where and when, without running it, is asked of the same minds in virtual time (`_dry_run`).

Never decides what runs where (`scheduler` does), never touches a job's process (`grainlike_worker` does). The embedded
worker is the same worker as anywhere, joined by a link in memory; `_embedded` is the one place that knows.
"""

from typing import TYPE_CHECKING

from grainlike._later import later
from grainlike.executor._executor import Executor
from grainlike.executor._finding import find
from grainlike.executor._run import run
from grainlike.graph import register

if TYPE_CHECKING:
    from grainlike.executor._amap import amap
    from grainlike.executor._as_completed import as_completed
    from grainlike.executor._backend import Backend
    from grainlike.executor._callbacks import Callbacks
    from grainlike.executor._connect import connect
    from grainlike.executor._dag import Dag
    from grainlike.executor._dry_run import dry_run
    from grainlike.executor._events import Event
    from grainlike.executor._plan import Plan, PlannedJob, Unsatisfiable
    from grainlike.executor._pool import ResourcePool
    from grainlike.executor._report import DagReport, JobReport
    from grainlike.executor._totals import Totals
    from grainlike.executor._workers import WorkerInfo

__all__ = [
    "Backend",
    "Callbacks",
    "Dag",
    "DagReport",
    "Event",
    "Executor",
    "JobReport",
    "Plan",
    "PlannedJob",
    "ResourcePool",
    "Totals",
    "Unsatisfiable",
    "WorkerInfo",
    "amap",
    "as_completed",
    "connect",
    "dry_run",
    "run",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "Backend": "_backend",
            "Callbacks": "_callbacks",
            "Dag": "_dag",
            "DagReport": "_report",
            "Event": "_events",
            "JobReport": "_report",
            "Plan": "_plan",
            "PlannedJob": "_plan",
            "ResourcePool": "_pool",
            "Totals": "_totals",
            "Unsatisfiable": "_plan",
            "WorkerInfo": "_workers",
            "amap": "_amap",
            "as_completed": "_as_completed",
            "connect": "_connect",
            "dry_run": "_dry_run",
        },
    )

register(find)
