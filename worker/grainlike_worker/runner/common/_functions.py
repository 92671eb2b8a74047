"""The functions that a runner was told of: loaded when first called, once per number.

One job that stands for many tiny calls of a plain function, as `amap` sends them.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from contextvars import copy_context
from math import inf
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from grainlike.context import JobInfo
from grainlike.joblogging import LogLevels, levels_of
from grainlike.payload import (
    STAMP_BYTES,
    STAY_BYTES,
    Payload,
    Store,
    dump_error,
    dump_value,
    know,
    load_arguments,
    load_function,
    load_value,
    remove_replica,
    replica_path,
    replica_size,
    resolving,
    write_replica,
)
from grainlike.wire import Buffer, Define, FunctionSpec, Need, Parcel, Room, RoomIs, Setup
from grainlike_worker.runner.common._edited_modules import EditedModules, reason_to_replace, warning_of
from grainlike_worker.runner.common._failures import InputGoneError, NoRoomError
from grainlike_worker.runner.common._outcomes import Stays

if TYPE_CHECKING:
    from grainlike_worker.runner.common._context import WorkerContext

__all__ = ["LoadedFunction", "LoadedFunctions", "Many"]

_CHAINS = "grainlike_worker.runner.common._chain"
"""Module of the functions that run chains; a process that runs none does not import it."""


class LoadedFunction(NamedTuple):
    """A function ready to call, or (`refusal`) the dumped error that says why it cannot be.

    `on`: the exception types after which a call is tried again; None for all. `logs`: the levels of its program's
    loggers; None where its jobs keep their records of `logging`. `stays`: its large values stay at the worker;
    `plain_most`: the most bytes of a plain value that does not. `is_chain`: it runs a chain, of which the large value
    of the first link stays at the worker.
    """

    name: str
    value_name: str
    is_async: bool
    callable: Callable[..., Any]
    refusal: Payload | None = None
    on: tuple[type[BaseException], ...] | None = None
    logs: LogLevels | None = None
    stays: bool = False
    plain_most: int = sys.maxsize
    is_chain: bool = False

    @property
    def place(self) -> str:
        """The file and line where the function is written; empty where that is not known."""
        if type(self.callable) is not FunctionType:
            return ""
        code = self.callable.__code__
        return f"{code.co_filename}:{code.co_firstlineno}"

    def is_final(self, error: BaseException) -> bool:
        """Return True if a call that failed with `error` is not to be tried again."""
        # By the type alone: `isinstance` asks the object too, and a user's class may raise at every look.
        return self.on is not None and not issubclass(type(error), self.on)


class LoadedFunctions:
    """Functions that `Define` and `Setup` brought. Nothing is unpickled before a job needs it.

    In a program of the user's `edits` is None: it is not for us to say that its own modules were edited.
    """

    __slots__ = (
        "_edited", "_edits", "_leaving", "_loaded", "context", "digests", "get", "instance", "look_at", "replicas",
        "store", "unloaded", "value", "warning",
    )  # fmt: skip

    def __init__(self, edits: EditedModules | None = None) -> None:
        self.instance = ""
        self._edits = edits
        self._edited: list[tuple[str, str]] = []
        """Modules that were found to be edited, with their paths."""
        self.look_at: float = inf if edits is None else 0.0
        """When to `look` again, on the monotonic clock: at a lease, not at each of its jobs."""
        self.warning: str = ""
        """Warning that the next job prints, by `warn`."""
        self.context: WorkerContext | None = None
        """The worker's context module."""
        self.value: Any = None
        """What it gave, once it was entered."""
        self.store: Store | None = None
        """Where large values go; None where no memory is shared with the head."""
        self.replicas = Path()
        """Where values that stay are, if the worker keeps any."""
        self.unloaded: dict[int, tuple[FunctionSpec, Buffer]] = {}
        """What was told of and not called yet."""
        self._loaded = _LoadedByNumber(self.unloaded, edits)
        self.get: Callable[[int], LoadedFunction] = self._loaded.__getitem__
        """Returns the function of a number, loaded now if it is the first time. Never raises for a user's reasons."""
        self.digests: dict[int, bytes] = {}
        """Digests of the functions' bytes, by number: the same for those that differ in their options alone."""
        self._leaving: set[int] = set()
        """What is to be dropped when no lease is of it any more."""

    def set_up(self, setup: Setup) -> None:
        """Take the worker's name and context, and the client's import paths behind this process's own."""
        self.instance = setup.instance
        if setup.context:
            from grainlike_worker.runner.common._context import WorkerContext

            self.context = WorkerContext(setup.context, setup.instance)
        if setup.store:
            self.store = Store(Path(setup.store))
            know(self.store.directory)
        self.replicas = Path(setup.replicas)
        sys.path.extend(path for path in setup.paths if path not in sys.path)
        if setup.authkey:
            from multiprocessing.process import current_process

            current_process().authkey = setup.authkey

    async def enter_context(self) -> BaseException | None:
        """Enter the worker's context, if it has one; return what was raised."""
        if self.context is None or self.context.entered:
            return None
        error = await self.context.enter()
        self.value = self.context.value
        return error

    def arguments(self, parcel: Parcel, needs: Iterable[Need]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments that refer to values which are here.

        Raises `InputGoneError` where one of these is not, and what an operator on them and `load_arguments` raise.
        """
        paths = {need.value: replica_path(self.replicas, need.value, need.attempt) for need in needs}
        with resolving(paths) as referenced:
            try:
                return load_arguments(referenced.filled(parcel))
            except BaseException as error:
                if referenced.gone:
                    raise InputGoneError(referenced.gone) from error
                if referenced.error is not None:
                    raise referenced.error from None
                raise

    def kept(
        self, payload: Payload, function: LoadedFunction, info: JobInfo, ask: Callable[[Room], RoomIs]
    ) -> Payload | Stays:
        """Return a job's value as it is told. One that is to stay waits in `ask` for room.

        Raises:
            NoRoomError: there is none.
        """
        if not payload.buffers and (not function.stays or len(payload.data) <= STAY_BYTES):
            return payload
        if self.stays(payload, function):
            return self.written(payload, ask(Room(info.id, info.attempt, replica_size(payload))))
        return self.sent(payload, info.id, info.attempt)

    def stays(self, payload: Payload, function: LoadedFunction) -> bool:
        """Return True if a job's value is to stay at this worker, as it is large and `function` lets it."""
        return function.stays and payload.nbytes > STAY_BYTES and bool(self.replicas.name)

    def first_value(self, outcomes: Sequence[tuple[Any, ...]]) -> Payload | None:
        """Return the value of a chain's first link if it is to stay at this worker as the value of the chain's job, as
        it is large and no other link has run; else None.
        """
        good, data, buffers = outcomes[0][:3]
        payload = Payload(data, buffers)
        alone = good and len(outcomes) == 1 and bool(self.replicas.name)
        return payload if alone and payload.nbytes > STAY_BYTES else None

    def written(
        self, payload: Payload, room: RoomIs, travelling: Callable[[], Payload] | None = None
    ) -> Payload | Stays:
        """Return a value that is to stay, written to the room that there is for it; or without room as it travels,
        which is what `travelling` returns, if that is something else.

        Raises:
            NoRoomError: there is none, and will be none.
        """
        if room.full:
            raise NoRoomError(f"on worker {self.instance} {room.full}", room.job, replica_size(payload))
        if room.path:
            size = write_replica(Path(room.path), replica_path(self.replicas, room.job, room.attempt), payload)
            if size is not None:
                return Stays(size)
        return self.sent(payload if travelling is None else travelling(), room.job, room.attempt)

    def sent(self, payload: Payload, job: int, attempt: int) -> Payload:
        """Return a job's value as it is sent: where memory is shared with the head, its buffers are there."""
        if not payload.buffers or self.store is None:
            return payload
        return self.store.put(payload, self.store.own(f"r{job}-{attempt}"))

    def release(self, info: JobInfo) -> None:
        """Drop what may have begun to be kept of a value when the job was ended."""
        if self.store is not None:
            self.store.discard(f"r{info.id}-{info.attempt}")
        if self.replicas.name:
            remove_replica(replica_path(self.replicas, info.id, info.attempt))

    def define(self, message: Define, buffers: Sequence[Buffer]) -> None:
        """Take functions; each buffer belongs to the function of the same index."""
        for spec, buffer in zip(message.functions, buffers, strict=True):
            self.unloaded[spec.fn] = (spec, buffer)
            self.digests[spec.fn] = spec.digest

    def undefine(self, functions: Iterable[int], used: Collection[int]) -> None:
        """Drop functions. Those that are `used` by leases that have not ended go the next time."""
        self._leaving.update(functions)
        for fn in [fn for fn in self._leaving if fn not in used]:
            self._leaving.discard(fn)
            self.unloaded.pop(fn, None)
            self._loaded.pop(fn, None)
            self.digests.pop(fn, None)

    def note(self) -> None:
        """Note what a job has imported, before its end is known and the module may be edited."""
        if self._edits is not None:
            self._edits.note()

    def look(self, now: float) -> None:
        """Look whether modules were edited since they were imported here, for `warn`."""
        assert self._edits is not None
        edited = self._edits.look(now)
        self.look_at = self._edits.due_at
        if edited:
            self._edited += edited
            self.warning = warning_of(edited, self.instance)

    def outdated(self, fn: int, now: float) -> str:
        """Return why another process is to run a function that comes for the first time: it would find old code of
        modules here that were edited since. Empty if it may run here, as one of a program that was here before.
        """
        if self._edits is None or fn not in self.unloaded or _stamp_of(self.unloaded[fn][1]) in self._loaded.stamps:
            return ""
        self.look(now)
        return reason_to_replace(self._edited) if self._edited else ""

    def remind(self, fn: int, now: float) -> None:
        """Have the warning said once more if a function that comes for the first time finds old code here."""
        if self.outdated(fn, now):
            self.warning = warning_of(self._edited, self.instance)

    def warn(self, function: LoadedFunction) -> None:
        """Say the warning, once: as a record of `logging` for the program of the job that begins, or as its output."""
        words, self.warning = self.warning, ""
        with suppress(Exception):  # another job may have put anything there
            if function.logs is None:
                print(f"grainlike: {words}", file=sys.stderr)  # noqa: T201 - where its user reads
            else:
                logging.getLogger("grainlike").warning("%s", words)

    @property
    def count(self) -> int:
        """Return the number of functions."""
        return len(self.unloaded) + len(self._loaded)


class _LoadedByNumber(dict[int, LoadedFunction]):
    """Functions by their numbers; one of `unloaded` is loaded when it is asked for.

    A `dict`, as each job asks for its function: of one that is loaded, without a Python call.
    """

    __slots__ = ("_edits", "_unloaded", "stamps")

    def __init__(self, unloaded: dict[int, tuple[FunctionSpec, Buffer]], edits: EditedModules | None) -> None:
        super().__init__()
        self._unloaded = unloaded
        self._edits = edits
        self.stamps: set[bytes] = set()
        """Stamps of functions that were loaded here."""

    def __missing__(self, fn: int) -> LoadedFunction:
        self.stamps.add(_stamp_of(self._unloaded[fn][1]))
        loaded = self[fn] = _load(*self._unloaded.pop(fn))
        if self._edits is not None:
            self._edits.note()
        return loaded


def _stamp_of(blob: Buffer) -> bytes:
    """Return the stamp of the versions of modules behind a function's bytes, as its program had imported them."""
    return bytes(blob[-STAMP_BYTES:])


def _load(spec: FunctionSpec, blob: Buffer) -> LoadedFunction:
    name, value_name = spec.name, f"the value of {spec.name}"
    sys.path.extend(path for path in spec.paths if path not in sys.path)
    try:
        function = load_function(blob)
        on = load_value(Payload(spec.on), what=f"on= of {name}") if spec.on else None
        call = Many(function, value_name) if spec.many else function
        is_chain = type(function) is FunctionType and function.__module__ == _CHAINS
        return LoadedFunction(
            *(name, value_name, spec.is_async, call),
            on=on,
            logs=levels_of(spec.logs),
            stays=spec.stays and not is_chain,
            plain_most=STAY_BYTES if spec.stays and not is_chain else sys.maxsize,
            is_chain=spec.stays and is_chain,
        )
    except BaseException as error:  # noqa: BLE001 - loading runs user code, which may raise anything
        _hint(error)
        return LoadedFunction(name, value_name, spec.is_async, _uncallable, dump_error(error))


def _hint(error: BaseException) -> None:
    cause = error if isinstance(error, ImportError) else error.__cause__
    if isinstance(cause, ImportError):
        error.add_note(
            f"the worker's Python ({sys.executable}) imports from: {', '.join(filter(None, sys.path))}; install the "
            "module there, or put its directory on PYTHONPATH where the worker starts"
        )


def _uncallable(*_: object, **__: object) -> object:
    raise AssertionError("a function that could not be loaded is never called")


class Many:
    """Calls `function` once for each packed argument list, each time in a context of its own, up to the first failure.

    Gives the packed values in order, and the packed exception of the call after them, or None. `what` names a value in
    errors.
    """

    __slots__ = ("_function", "_what")

    def __init__(self, function: Callable[..., Any], what: str) -> None:
        self._function = function
        self._what = what

    def __call__(self, calls: Sequence[bytes]) -> tuple[list[Parcel], Parcel | None]:
        values: list[Parcel] = []
        for arguments in calls:
            try:
                values.append(copy_context().run(self._call, arguments))
            except Exception as error:  # noqa: BLE001 - whatever a call raises is its outcome
                return values, _parcel(dump_error(error))
        return values, None

    def _call(self, arguments: bytes) -> Parcel:
        args, kwargs = load_arguments(Payload(arguments))
        return _parcel(dump_value(self._function(*args, **kwargs), what=self._what))


def _parcel(payload: Payload) -> Parcel:
    """Return a payload as plain bytes, for what holds it is itself a value that will travel."""
    return bytes(payload.data), [bytes(buffer) for buffer in payload.buffers]
