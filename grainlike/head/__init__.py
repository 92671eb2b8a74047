"""The head: drives the scheduler, and performs its actions on the workers that are connected.

Answers: how a node becomes a job (`_submit`), how actions of the scheduler are performed (`_actions`), how results
and items of streams come back (`_results`), the state of jobs and workers (`_state`, `_peers`), what
jobs print (`_logs`), what became of them (`_history`), all that happens as records (`_event_log`), which queries it
answers (`_queries`, and `_live` for viewers), what it records (`_recorder`), and how jobs of jobs are run (`_nested`).
Who may connect is in `server`, how a head outlives its process in `durable`.

Never decides what runs where: `scheduler` does. Never waits: its owner passes it what arrived, and when.
"""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.head._event_log import EventLog
    from grainlike.head._functions import FunctionTable
    from grainlike.head._head import GOODBYE_S, Head
    from grainlike.head._live import LiveView, limits_are, queue_is
    from grainlike.head._logs import LogFollower
    from grainlike.head._nested import ReplyTo
    from grainlike.head._peers import Connection, WorkerConnection
    from grainlike.head._recorder import HERE, MOST, Recorder
    from grainlike.head._shared_memory import ObjectStore
    from grainlike.head._state import HeadState
    from grainlike.head._validation import check_data, check_hello, refusal_of_question

__all__ = [
    "GOODBYE_S",
    "HERE",
    "MOST",
    "Connection",
    "EventLog",
    "FunctionTable",
    "Head",
    "HeadState",
    "LiveView",
    "LogFollower",
    "ObjectStore",
    "Recorder",
    "ReplyTo",
    "WorkerConnection",
    "check_data",
    "check_hello",
    "limits_are",
    "queue_is",
    "refusal_of_question",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "ObjectStore": "_shared_memory",
            "EventLog": "_event_log",
            "GOODBYE_S": "_head",
            "FunctionTable": "_functions",
            "HERE": "_recorder",
            "Head": "_head",
            "HeadState": "_state",
            "ReplyTo": "_nested",
            "LiveView": "_live",
            "LogFollower": "_logs",
            "MOST": "_recorder",
            "Connection": "_peers",
            "WorkerConnection": "_peers",
            "Recorder": "_recorder",
            "check_data": "_validation",
            "check_hello": "_validation",
            "refusal_of_question": "_validation",
            "limits_are": "_live",
            "queue_is": "_live",
        },
    )
