"""Messages from the head to a worker: what to run, and what to end."""

from __future__ import annotations

import msgspec

from grainlike.wire._base import BaseMessage
from grainlike.wire._values import Need

__all__ = [
    "Assign",
    "Cancel",
    "ClassSpec",
    "Define",
    "Depart",
    "FunctionSpec",
    "Gang",
    "Hold",
    "NodeSpec",
    "Retract",
    "TimeLeft",
    "Undefine",
]


class FunctionSpec(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A function, sent once per worker: its serialized form is the frame's buffer of the same index.

    With `many`, one job of it stands for many calls: its one argument is a list of packed arguments. With `keep`, its
    jobs lend no cores while they await. `paths` are imports that it needs beside those of `Setup`. `on` holds the
    exception types after which a job is tried again, serialized; empty for all. `on_memory`: whether it is tried again
    after its process was killed for lack of memory. With `stays`, a large value of it stays at the worker. `logs` has
    the levels of its program's loggers, packed (`joblogging`); empty if records of `logging` that its jobs make are not
    passed on.
    """

    fn: int
    digest: bytes
    name: str
    is_async: bool
    timeout: float | None
    many: bool = False
    keep: bool = False
    paths: tuple[str, ...] = ()
    on: bytes = b""
    on_memory: bool = True
    logs: bytes = b""
    stays: bool = False


class ClassSpec(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A request class: `request` is the canonical text of the resources that each of its jobs needs."""

    cls: int
    request: str
    isolate: bool


class Define(BaseMessage, frozen=True, tag=10):
    """Functions and request classes that later messages name by number."""

    functions: list[FunctionSpec]
    classes: list[ClassSpec]


class Undefine(BaseMessage, frozen=True, tag=35):
    """Head to worker: drop these functions and request classes. No job needs them any more, and no later message names
    them. Runners receive the functions, too.
    """

    functions: list[int]
    classes: list[int]


class Assign(BaseMessage, frozen=True, tag=11):
    """Jobs of one class for this worker.

    A planned job (`ahead` False) fits by the head's counts and starts before any job sent ahead; one sent ahead waits
    at the worker so that the next job starts without a round trip. `data` and `counts` are packed parcels. `hard_s` is
    how long each job may run at most. `memory`: bytes that each job asked for, where that is less than its class says,
    and 0 for others; empty if no job did. `ages`: the number of the oldest job that each needs, or its own, by which
    those that wait here go; empty if all go by their own. `needs`: the values that each job needs, all of which are
    here; empty if no job needs any.
    """

    cls: int
    ahead: bool
    jobs: list[int]
    attempts: list[int]
    fns: list[int]
    data: list[bytes]
    counts: list[int]
    hard_s: float | None = None
    memory: tuple[int, ...] = ()
    ages: tuple[int, ...] = ()
    needs: list[list[Need]] = msgspec.field(default_factory=list)


class Cancel(BaseMessage, frozen=True, tag=12):
    """Stop these attempts, started or not; each is answered by a `Completed` once its slots are free."""

    jobs: list[int]
    attempts: list[int]


class Retract(BaseMessage, frozen=True, tag=13):
    """Give back those of these attempts that have not started (`Code.RETURNED`); the others run on."""

    jobs: list[int]
    attempts: list[int]


class Hold(BaseMessage, frozen=True, tag=33):
    """Head to worker: keep slots of this class for gangs, which are named by their jobs and attempts.

    Each is answered by a `LeaseStart` when its ids are granted; nothing runs on them. At the worker that leads the gang
    an `Assign` of the same job and attempt then starts the job on them. A `Cancel` ends a hold anywhere, which a
    `Completed` answers, and the end of its lease if it had one.
    """

    cls: int
    jobs: list[int]
    attempts: list[int]


class NodeSpec(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The slots of a gang on one worker: the worker's name, the address of its host, its slots as text."""

    name: str
    host: str
    allocation: str


class Gang(BaseMessage, frozen=True, tag=34):
    """Head to the leading worker, and on to the runner: where the job that comes next has its slots, the leader first.

    `hostfile` is the path of the file that names the hosts; the worker adds it.
    """

    job: int
    attempt: int
    nodes: list[NodeSpec]
    hostfile: str = ""


class Depart(BaseMessage, frozen=True, tag=112):
    """Head to worker: stop once the jobs that are there have ended; with `kill`, stop at once, as on SIGTERM."""

    kill: bool


class TimeLeft(BaseMessage, frozen=True, tag=124):
    """Head to worker: stop in `left_s` seconds, whatever was said before; what then runs has `grace_s` to end."""

    left_s: float
    grace_s: float
