"""Calls of which each needs the value of the one before: quick ones travel together and run here back to back.

A chain is one job to the schedulers: a function of this module, called with the functions and arguments of its links.
Each link still runs in a context of its own, sees its own job, and has its own outcome, times included. What the chain
does not get to comes back as not run, and the head sends it again: behind a link that fails or waits, or gives a large
value, when the links turn out long, and on a second attempt, so that a link that kills its process is soon the first
one and alone to blame. A large value of the first link is the job's own, and stays at the worker (`first_value`).
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import Context, copy_context
from functools import lru_cache
from typing import Any

from grainlike.context import GVAR, author, enter_part
from grainlike.payload import (
    ONLY_PREVIOUS,
    STAY_BYTES,
    Buffer,
    Payload,
    dump_plain_value,
    dump_value,
    load_arguments_after,
    load_function,
)
from grainlike.wire import OutputStream
from grainlike_worker.ipc._signals import TERMINATED
from grainlike_worker.runner.common import _chain_links
from grainlike_worker.runner.common._coroutines import SuspendedCoroutine, as_coroutine
from grainlike_worker.runner.common._failures import failure, failure_text, is_cancellation

__all__ = ["Link", "Outcome", "run_chain", "run_chain_async"]

LONG_S = 0.010
"""A chain that has not ended after this long gives back what it has not started."""

Link = tuple[int, int, str, bytes]
"""The number of the function, the number of the job, its name, and the bytes of its arguments."""

Outcome = tuple[bool, bytes, tuple[bytes, ...], float, float, float]
"""Whether it succeeded, the bytes of its value or error, when it began (monotonic), wall seconds, CPU seconds."""

_Packed = tuple[Buffer, tuple[Buffer, ...]]
"""A value as `Payload` has it: its stream and its buffers."""


def run_chain(functions: dict[int, bytes], links: list[Link]) -> list[Outcome]:
    """Run plain functions; fewer outcomes than links mean that the rest was not run."""
    chain = _RunningChain(functions)
    for link in chain.due(links):
        chain.run(link, _called)
    return chain.outcomes


async def run_chain_async(functions: dict[int, bytes], links: list[Link]) -> list[Outcome]:
    """Run coroutine functions. One that waits is seen to its end; nothing starts behind it."""
    chain = _RunningChain(functions)
    for link in chain.due(links):
        suspended = chain.run(link, _first_step)
        if suspended is not None:
            await chain.finish(link, suspended)
            break
    return chain.outcomes


Step = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any], Context], Any]


def _called(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], _: Context) -> Any:
    return function(*args, **kwargs)


def _first_step(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], context: Context) -> Any:
    coroutine = as_coroutine(function(*args, **kwargs))
    try:
        return SuspendedCoroutine(context, coroutine, coroutine.send(None))
    except StopIteration as stop:
        return stop.value


class _RunningChain:
    """The links that have run, and the value that the next one takes."""

    def __init__(self, functions: dict[int, bytes]) -> None:
        self.outcomes: list[Outcome] = []
        self._functions = functions
        for data in functions.values():
            with suppress(Exception):  # the link whose function it is raises it again
                _function(data)  # now: what unpickling takes is no part of a link's time
        self._value: _Packed = b"", ()
        self._plain: tuple[object] | None = None
        """The value, if it is a number, text or bytes: a copy of it would be the same."""
        job = GVAR.job
        self._again = job is not None and job.attempt > 1
        self._deadline = None if job is None else job.deadline
        self._begun = self._chain_begun = time.monotonic()
        self._cpu = time.process_time()

    def due(self, links: list[Link]) -> Iterator[Link]:
        """Iterate over the links that shall run; whether there is a next one depends on how the last one went."""
        for link in links:
            yield link
            if self._again or not self.outcomes[-1][0] or self._begun - self._chain_begun > LONG_S:
                return
            data, buffers = self._value
            if (buffers or len(data) > STAY_BYTES) and Payload(data, buffers).nbytes > STAY_BYTES:
                return  # what needs the value is sent a reference

    def run(self, link: Link, step: Step) -> SuspendedCoroutine | None:
        """Run a link, or the first step of one that waits."""
        context, job = copy_context(), link[1]
        _chain_links.begins(job)
        try:
            outcome = context.run(self._call, context, link, step)
        except BaseException as error:  # noqa: BLE001 - whatever a job raises is its outcome
            _chain_links.ended(job, self._failed(error, link, context))
            return None
        if isinstance(outcome, SuspendedCoroutine):
            return outcome
        self._ran(outcome)
        _chain_links.ended(job, "")
        return None

    async def finish(self, link: Link, suspended: SuspendedCoroutine) -> None:
        """Run a link that waits to its end."""
        try:
            value = self._packed(await suspended, link[2])
        except BaseException as error:
            if is_cancellation(error):
                raise  # the worker's, as far as can be told: the chain's own outcome says which
            _chain_links.ended(link[1], self._failed(error, link, suspended.context))
        else:
            self._ran(value)

    def _call(self, context: Context, link: Link, step: Step) -> _Packed | SuspendedCoroutine:
        fn, job, name, data = link
        enter_part((job, name, 1, self._deadline, (), None))
        args: tuple[Any, ...]
        if data == ONLY_PREVIOUS and self._plain is not None:
            args, kwargs = self._plain, dict[str, Any]()
        else:
            args, kwargs = load_arguments_after(Payload(data), self._value)
        made = step(_function(self._functions[fn]), args, kwargs, context)
        return made if type(made) is SuspendedCoroutine else self._packed(made, name)

    def _packed(self, value: object, name: str) -> _Packed:
        data = dump_plain_value(value, sys.maxsize)
        if data is not None:
            self._plain = (value,)
            return data, ()
        self._plain = None
        return dump_value(value, what=f"the value of {name}").detached()

    def _ran(self, value: _Packed) -> None:
        self._value = value
        self._end(value, good=True)

    def _failed(self, error: BaseException, link: Link, context: Context) -> str:
        """Take the exception of a link; return its text, which readers of the link's output are told."""
        if isinstance(error, SystemExit) and error.code == TERMINATED:
            raise error  # the process was told to end, not the link
        payload = failure(error)
        self._end(payload, good=False)
        text = failure_text(payload.data, link[3])
        found = context.run(author)
        if found is not None:  # in a process that jobs share, which tells output apart by context
            output, job = found
            output.write(job, OutputStream.TRACEBACK, text)
        return text

    def _end(self, packed: _Packed, *, good: bool) -> None:
        now, cpu = time.monotonic(), time.process_time()
        data, buffers = packed
        apart = tuple(map(bytes, buffers)) if buffers else ()
        self.outcomes.append((good, bytes(data), apart, self._begun, now - self._begun, cpu - self._cpu))
        self._begun, self._cpu = now, cpu


_function = lru_cache(maxsize=256)(load_function)
"""Functions by their bytes; the same few come again and again."""
