"""Numbers for functions: each is serialized once, shipped once to each worker by number, and dropped when unowned.

The bytes of a function are held once per digest, for all senders together, and counted by *owners*: the program's own
function objects (by weak reference), the clients that sent them (until they leave, or release them), and the jobs
that sent them for calls of their own (until the job has ended). Bytes without an owner stay for a while, the longest
unowned being dropped first, because a program that runs again, or a loop that redefines its function, asks for the
same bytes; live jobs are never left without theirs.

Only the head counts. A worker and its runners drop a function when the head sends that, in one order with the
messages that define functions and assign jobs; a client or a job notes by itself what it has sent, and its release is
in order with its calls. So no process ever lacks a function that another end believes it to have, however links
break, and a replay of the journal repeats it all. A cache at each worker that drops by itself and asks again for what
it lacks would bound memory just as well, but jobs would have to wait at the worker for a function while
cancellations, deadlines and losses are handled; and the head would still have to track what to keep.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sized
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import ref

from grainlike.errors import ProtocolError
from grainlike.joblogging import ProgramLevels
from grainlike.jobs import FirstOfChain, Job, retry_spec
from grainlike.payload import dump_function, name_function
from grainlike.scheduler import AHEAD_QUICK_S, FunctionDefined, HeadJob
from grainlike.wire import Buffer, FunctionSpec, RetrySpec, SubmittedFunction

if TYPE_CHECKING:
    from grainlike.graph import Function

__all__ = ["FunctionTable", "Owner"]

_CHAIN = "chain"

_QUICK_SCHEMA = 5
"""Schema of journals from which on the bound of quick jobs is `AHEAD_QUICK_S`."""

_QUICK_BEFORE_S = 0.1
"""That bound in journals of earlier schemas; it never changes."""

UNOWNED_MOST = 256
UNOWNED_BYTES = 4 * 1024 * 1024
"""Number of functions, and bytes of them, that are kept without an owner."""

_SWEEP_JOBS = 64
"""The fewest jobs that are submitted between two sweeps, while others run."""

Owner = tuple[int, int]
"""A client's number and 0, or 0 and a job's number."""

_PlainKey = tuple[bytes, str, bool, float | None, RetrySpec, bool, bool, tuple[str, ...]]

_Key = (
    _PlainKey
    | tuple[bytes, str, bool, float | None, RetrySpec, bool, bool, tuple[str, ...], bool]
    | tuple[bytes, str, bool, float | None, RetrySpec, bool, bool, tuple[str, ...], bool, bool]
)
"""Digest, name, whether it is async, timeout, when it is tried again, whether one job is many calls, whether it keeps
its cores, and where it imports from; whether its large values stay at workers, if they do or another field follows;
and True if its jobs are internal."""

_INTERNAL = 9
"""Place in a key of whether its jobs are internal."""

_LoggingKey = tuple[_Key, bytes]
"""Key, and the levels of its program's loggers, where those matter: functions of other programs have a `_Key` alone."""


class _Blob:
    """The bytes of one digest, the keys under which functions of these bytes have numbers, and the count of owners."""

    __slots__ = ("data", "keys", "owners")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.keys: list[_Key | _LoggingKey] = []
        self.owners = 0


class FunctionTable:
    """Functions of a head; each is defined (`define`) to the scheduler, once.

    A function whose globals or closure were rebound since has other bytes, and gets a number of its own: jobs already
    submitted run what was meant then. No number is given twice.
    """

    levels: ProgramLevels | None = None
    """Levels of the program's loggers; None if records of `logging` that its jobs make are not passed on to it."""
    stays = False
    """True if large values of the program's own functions stay at their workers."""

    def __init__(self, define: Callable[[FunctionDefined], object]) -> None:
        self._define = define
        self._numbers: dict[_Key | _LoggingKey, int] = {}
        self._specs: dict[int, tuple[FunctionSpec, bytes]] = {}
        self._blobs: dict[bytes, _Blob] = {}
        self._last = 0
        self.quick_s: float = AHEAD_QUICK_S
        """Mean run time in seconds up to which jobs of functions that are defined from now on are sent ahead."""
        self.large: set[int] = set()
        """Functions that have given values which stayed at workers."""
        self._known: dict[ref[Function], tuple[bytes, int, bytes]] = {}
        """Digest, number and levels of the program's own functions."""
        self._collected: list[ref[Function]] = []
        """Functions that were collected since the last sweep: any thread may append."""
        self._by_client: dict[int, dict[bytes, None]] = {}
        self._by_job: dict[int, dict[bytes, None]] = {}
        self._unowned: dict[bytes, None] = {}
        """In the order in which they lost their last owner."""
        self._unowned_bytes = 0
        self._swept_jobs = self._swept_at = 0
        """Number of live jobs at the last sweep, and the highest number of a job then."""
        self.dropped_bytes: int = 0
        """Bytes of functions that were dropped in all."""

    def decide_as(self, schema: int) -> None:
        """Decide as heads whose journals have that schema: only so the replay of a log leads to the same state."""
        self.quick_s = AHEAD_QUICK_S if schema >= _QUICK_SCHEMA else _QUICK_BEFORE_S

    @property
    def count(self) -> int:
        """Number of functions that are held."""
        return len(self._specs)

    def number(self, function: Function) -> int:
        """Return the function's number. Raises `SerializationError` for one that cannot travel."""
        blob = dump_function(function.callable)
        known = self._known.get(ref(function))
        levels = self.levels
        # Not in a function of its own: the program's levels have hardly ever changed, and to ask costs no call so.
        logs = b"" if levels is None else levels.packed if levels.unchanged in levels.cache else levels.read()
        if known is not None and known[0] is blob.digest and known[2] == logs:
            return known[1]
        options = function.options
        stays = self.stays and not (function.many or function.is_stream) and options.cache is None
        plain = (
            blob.digest,
            function.name,
            function.is_async,
            options.timeout,
            retry_spec(options.retry),
            function.many,
            options.keep,
            (),
        )
        key = _key(plain, stays=stays, internal=function.internal)
        self._hold(blob.digest, blob.data)
        if known is not None:
            self._release(known[0])
        fn = self._intern(key, logs)
        mine = ref(function, self._collected.append) if known is None else ref(function)
        self._known[mine] = blob.digest, fn, logs  # a key that is there stays, with its callback
        return fn

    def adopt(self, spec: SubmittedFunction, data: Buffer | None, owner: Owner, paths: tuple[str, ...] = ()) -> int:
        """Return the number of a function that a job or a client calls.

        `data` is None once the same owner had sent it; `paths` are the imports that it needs.

        Raises:
            ProtocolError: the owner never sent it.
        """
        owned = self._owned(owner)
        if spec.digest not in owned:
            if data is None:
                raise ProtocolError(f"{spec.name} is called, and was never sent")
            self._hold(spec.digest, data)
            owned[spec.digest] = None
        plain = (spec.digest, spec.name, spec.is_async, spec.timeout, spec.retry, spec.many, spec.keep, paths)
        return self._intern(_key(plain, stays=spec.stays, internal=spec.internal), spec.logs)

    def owned_by(self, client: int) -> Container[bytes]:
        """Return the digests of the functions that a client has sent and not released."""
        return self._by_client.get(client, ())

    def lacks(self, functions: Iterable[SubmittedFunction], owner: Owner) -> bool:
        """Return True if `owner` calls a function that it does not send with these and does not own."""
        owned = (self._by_client if owner[0] else self._by_job).get(owner[0] or owner[1], {})
        sent = {spec.digest for spec in functions if spec.here}
        return any(spec.digest not in owned and spec.digest not in sent for spec in functions)

    def release(self, owner: Owner, digests: Iterable[bytes] | None = None) -> None:
        """Release functions of a client or job: these digests, or all if None. Digests that it does not own are
        passed over.
        """
        table, number = (self._by_client if owner[0] else self._by_job), owner[0] or owner[1]
        owned = table.get(number, {})
        for digest in list(owned) if digests is None else digests:
            if digest in owned:
                del owned[digest]
                self._release(digest)
        if not owned:
            table.pop(number, None)

    def chain(self, *, is_async: bool) -> int:
        """Return the number of the worker's own function that runs several calls one after another."""
        blob = name_function("grainlike_worker.runner.common._chain", "run_chain_async" if is_async else "run_chain")
        logs = b"" if self.levels is None else self.levels.packed
        plain = (blob.digest, _CHAIN, is_async, None, RetrySpec(), False, False, ())
        key = _key(plain, stays=self.stays, internal=False)
        if ((key, logs) if logs else key) not in self._numbers:
            self._hold(blob.digest, blob.data)  # for good
        return self._intern(key, logs)

    def is_async(self, fn: int) -> bool:
        """Return True for the number of a coroutine function; False for that of another, or of one that was dropped."""
        found = self._specs.get(fn)
        return found is not None and found[0].is_async

    def shipment(self, fn: int) -> tuple[FunctionSpec, bytes]:
        """Return the definition of a function for a worker: spec and bytes."""
        return self._specs[fn]

    def losses(self, fn: int) -> int:
        """Return how many losses of its worker a function may have and be run again."""
        for key in self._blobs[self._specs[fn][0].digest].keys:
            if self._numbers[key] == fn:
                return next(field.losses for field in _fields(key) if isinstance(field, RetrySpec))
        raise KeyError(fn)

    @cached_property
    def internal(self) -> set[int]:
        """Numbers of the functions of internal jobs, which no total counts."""
        return {fn for key, fn in self._numbers.items() if _is_internal(key)}

    # --- owners ------------------------------------------------------------------------------------------------------

    def _owned(self, owner: Owner) -> dict[bytes, None]:
        table = self._by_client if owner[0] else self._by_job
        return table.setdefault(owner[0] or owner[1], {})

    def _hold(self, digest: bytes, data: Buffer) -> None:
        blob = self._blobs.get(digest)
        if blob is None:
            blob = self._blobs[digest] = _Blob(bytes(data))
        elif not blob.owners:
            del self._unowned[digest]
            self._unowned_bytes -= len(blob.data)
        blob.owners += 1

    def _release(self, digest: bytes) -> None:
        blob = self._blobs[digest]
        blob.owners -= 1
        if not blob.owners:
            self._unowned[digest] = None
            self._unowned_bytes += len(blob.data)

    def _intern(self, key: _Key, logs: bytes) -> int:
        whole: _Key | _LoggingKey = (key, logs) if logs else key
        fn = self._numbers.get(whole)
        if fn is not None:
            return fn
        self._last += 1
        fn = self._numbers[whole] = self._last
        digest, name, is_async, timeout, retry, many, keep, paths, *flags = key
        blob = self._blobs[digest]
        blob.keys.append(whole)
        spec = FunctionSpec(
            fn, digest, name, is_async, timeout, many, keep, paths, retry.on, retry.on_memory, logs, any(flags[:1])
        )
        self._specs[fn] = spec, blob.data
        if _is_internal(whole):
            self.internal.add(fn)
        self._define(FunctionDefined(fn, retry.times, retry.losses, retry.backoff, retry.on_timeout, self.quick_s))
        return fn

    # --- the end of functions ----------------------------------------------------------------------------------------

    def sweep_is_due(self, live: Sized, last_job: int) -> bool:
        """Return True if a sweep may find something, and is worth a walk over all `live` jobs: of those at the last
        one half have ended, or as many have come since.
        """
        unowned = len(self._unowned) > UNOWNED_MOST or self._unowned_bytes > UNOWNED_BYTES  # each report asks
        if not (unowned or self._collected or self._by_job):
            return False
        return 2 * len(live) <= self._swept_jobs or last_job - self._swept_at >= max(_SWEEP_JOBS, self._swept_jobs)

    @property
    def _is_over(self) -> bool:
        return len(self._unowned) > UNOWNED_MOST or self._unowned_bytes > UNOWNED_BYTES

    def sweep(
        self, jobs: Mapping[int, Job], live: Mapping[int, HeadJob], last_job: int, kept: Callable[[], set[int]] = set
    ) -> list[int]:
        """Drop functions without an owner that no job uses, beyond those that may stay; return their numbers.

        `live` are the jobs of the scheduler, which has cancelled ones until they have ended; `jobs` the head's, with
        what travels along with them. `kept` returns the functions of calls that may run again.
        """
        self._swept_jobs, self._swept_at = len(live), last_job
        while self._collected:
            self._release(self._known.pop(self._collected.pop())[0])
        for job in [job for job in self._by_job if job not in live]:
            self.release((0, job))
        if not self._is_over:
            return []
        used = {job.fn.id for job in live.values()} | kept()
        used.update(link.fn for job in jobs.values() if type(job) is FirstOfChain for link in job.links)
        dropped: list[int] = []
        for digest in list(self._unowned):
            numbers = [self._numbers[key] for key in self._blobs[digest].keys]
            if used.isdisjoint(numbers):
                self._drop(digest)
                dropped += numbers
                if not self._is_over:
                    break
        return dropped

    def _drop(self, digest: bytes) -> None:
        blob = self._blobs.pop(digest)
        del self._unowned[digest]
        self._unowned_bytes -= len(blob.data)
        self.dropped_bytes += len(blob.data)
        for key in blob.keys:
            number = self._numbers.pop(key)
            del self._specs[number]
            self.large.discard(number)
            self.internal.discard(number)


def _key(plain: _PlainKey, *, stays: bool, internal: bool) -> _Key:
    """Return the key of a function: what is False of the last fields is left out, as in all earlier journals."""
    if internal:
        return *plain, stays, internal
    return (*plain, stays) if stays else plain


def _fields(key: _Key | _LoggingKey) -> tuple[object, ...]:
    """Return the fields of a key without the levels of loggers."""
    return key[0] if isinstance(key[0], tuple) else key


def _is_internal(key: _Key | _LoggingKey) -> bool:
    return len(_fields(key)) > _INTERNAL
