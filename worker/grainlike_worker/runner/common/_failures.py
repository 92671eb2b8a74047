"""Outcomes of jobs that an exception has ended."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from grainlike._shown import shown_arguments
from grainlike.errors import JobCancelledError, ProtocolError, StoreFullError
from grainlike.payload import Buffer, Payload, dump_error, plain_arguments, traceback_of_error
from grainlike.wire import Code, Completed, Parcel, unpack_parcels

__all__ = [
    "NO_VALUE",
    "InputGoneError",
    "NoRoomError",
    "failed",
    "failure",
    "failure_text",
    "failure_texts",
    "is_cancellation",
]

NO_VALUE = Payload(b"")

_RAISED = (Code.FAILED, Code.OUT_OF_MEMORY)

MOST_CHARACTERS = 16 * 1024
"""Length of a traceback from which its middle is left out of what readers of a job's output are told."""


class InputGoneError(Exception):
    """Raised when the arguments of a job refer to `values` of which no good replica is here: it has not begun."""

    def __init__(self, values: Sequence[int]) -> None:
        super().__init__(f"no good replica of {', '.join(map(str, values))} is here")
        self.values = values


class NoRoomError(StoreFullError):
    """Raised when there is no room for the value of `job`, of `size` bytes. The job itself raises other types."""

    def __init__(self, why: str, job: int, size: int) -> None:
        super().__init__(why)
        self.job = job
        self.size = size

    def told(self) -> StoreFullError:
        """Return the exception as awaiters of the job get it."""
        return StoreFullError(str(self)).with_traceback(self.__traceback__)


def failed(error: BaseException) -> tuple[Code, Payload]:
    """The outcome of a job that failed with `error`: a want of memory is told apart, for a larger request may help."""
    # By the type alone: `isinstance` asks the object too, and a user's class may raise at every look.
    return Code.OUT_OF_MEMORY if issubclass(type(error), MemoryError) else Code.FAILED, failure(error)


def failure(error: BaseException) -> Payload:
    """Return the payload of a job that failed with `error`, whatever it is; never raises.

    A job that raises the event loop's cancellation without being cancelled has failed: sent on as it is, it would
    pose as a cancellation of the job's awaiter. It becomes a `JobCancelledError`, caused by what was raised. So
    does what ends an iterator or a generator become a `RuntimeError`, as it would in any coroutine that awaits the job.
    """
    if issubclass(type(error), (StopIteration, GeneratorExit)):
        return dump_error(_renamed(error))
    if not is_cancellation(error):
        return dump_error(error)
    told = JobCancelledError("the job raised the event loop's cancellation, but nobody had cancelled it")
    told.__cause__ = error
    return dump_error(told.with_traceback(error.__traceback__))


def failure_text(error: Buffer, arguments: Buffer) -> str:
    """Return what readers of a job's output are told of its exception: the arguments of the call, where they are plain
    data, and the traceback. Nothing is unpickled; empty if `error` is no exception's bytes.
    """
    text = traceback_of_error(error, MOST_CHARACTERS)
    given = plain_arguments(arguments) if text else None
    return text if given is None else f"called with {shown_arguments(*given)}\n{text}"


def failure_texts(
    completed: Completed, buffers: Sequence[Buffer], arguments: Mapping[int, Parcel]
) -> Iterator[tuple[int, int, bytes]]:
    """Iterate over the jobs that an exception has ended, with their attempts and their `failure_text`."""
    if not any(map(completed.codes.__contains__, _RAISED)):
        return
    with suppress(ProtocolError):  # from a process of user code; the receiver of the outcome refuses it
        parcels = unpack_parcels(completed.data, completed.counts, buffers)
        rows = zip(completed.jobs, completed.attempts, completed.codes, parcels, strict=True)
        for job, attempt, code, (error, _) in rows:
            text = failure_text(error, arguments.get(job, NO_VALUE)[0]) if code in _RAISED else ""
            if text:
                yield job, attempt, text.encode(errors="backslashreplace")


def _renamed(error: BaseException) -> RuntimeError:
    told = RuntimeError(f"the job raised {type(error).__name__}: {error}")
    told.__cause__ = error
    return told.with_traceback(error.__traceback__)


def is_cancellation(error: BaseException) -> bool:
    """Return True if `error` is asyncio's or trio's own cancellation."""
    # Neither is imported for the question's sake: asyncio alone would double the start of a runner.
    for module in ("asyncio.exceptions", "trio"):
        kind = getattr(sys.modules.get(module), "CancelledError" if module[0] == "a" else "Cancelled", None)
        if kind is not None and issubclass(type(error), kind):
            return True
    return False
