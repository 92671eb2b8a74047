"""Outcomes of jobs that an exception has ended."""

import sys
from collections.abc import Sequence

from grainlike.errors import JobCancelledError
from grainlike.payload import Payload, dump_error
from grainlike.wire import Code

__all__ = ["NO_VALUE", "InputGoneError", "failed", "failure", "is_cancellation"]

NO_VALUE = Payload(b"")


class InputGoneError(Exception):
    """Raised when the arguments of a job refer to `values` of which no good replica is here: it has not begun."""

    def __init__(self, values: Sequence[int]) -> None:
        super().__init__(f"no good replica of {', '.join(map(str, values))} is here")
        self.values = values


def failed(error: BaseException) -> tuple[Code, Payload]:
    """The outcome of a job that failed with `error`: a want of memory is told apart, for a larger request may help."""
    # By the type alone: `isinstance` asks the object too, and a user's class may raise at every look.
    return Code.OUT_OF_MEMORY if issubclass(type(error), MemoryError) else Code.FAILED, failure(error)


def failure(error: BaseException) -> Payload:
    """The payload of a job that failed with `error`, whatever it is; never raises.

    A job that raises the event loop's cancellation though nobody cancelled it has failed: sent on as it is, it would
    pose as a cancellation of whoever awaits the job. It becomes a `JobCancelledError`, caused by what was raised. So
    does what ends an iterator or a generator become a `RuntimeError`, as it would in any coroutine that awaits the job.
    """
    if issubclass(type(error), (StopIteration, GeneratorExit)):
        return dump_error(_renamed(error))
    if not is_cancellation(error):
        return dump_error(error)
    told = JobCancelledError("the job raised the event loop's cancellation, but nobody had cancelled it")
    told.__cause__ = error
    return dump_error(told.with_traceback(error.__traceback__))


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
