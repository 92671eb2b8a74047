"""`python -m grainlike_worker`: one worker, in the foreground, until its head sends `Goodbye`.

Exit code 0 when the head closed, we were asked to stop, or our block has ended; 2 for wrong usage, 3 for no head, one
that was away for too long, or refused.
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # until it serves: modules leave no garbage, and it would look again and again through all they bring

import argparse
import logging
import math
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import anyio

from grainlike.errors import BlockEndedError, GrainlikeError, HeadLostError
from grainlike.eventloop import loop_options
from grainlike.net import RETURN_S, HeadLocator, Link, ReconnectingLink, waits
from grainlike.resources import Allocation, WallTime, near_name, parse, shown_amounts
from grainlike.subprocesses import reserve_standard_descriptors, reset_signals
from grainlike.system import block_label, node_rank, why_no_processes
from grainlike.wire import LOST_S
from grainlike_worker.daemon._check_context import why_not
from grainlike_worker.daemon._connect import to_head, wait_for_head
from grainlike_worker.daemon._data_process import check_data_option
from grainlike_worker.daemon._introduction import check_introduction
from grainlike_worker.daemon._probe import (
    end_of_batch_job,
    grace_before_end,
    offer_of_daemon,
    warn_of_logical,
    warn_of_memory,
)
from grainlike_worker.daemon._serve import serve_daemon
from grainlike_worker.daemon._stops import EndTimer, IdleTimer, stop_at_signal
from grainlike_worker.runner.common._job_directories import KEEP, KEEPS
from grainlike_worker.store._limits import StoreLimits, StoreOptions, store_limits

__all__ = ["main", "serve"]

logger = logging.getLogger("grainlike.worker")

OK, USAGE, NO_HEAD = 0, 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and serve; return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return serve(**vars(options))
    finally:
        if arguments is None:  # the process ends now; the collector would look through every module that was loaded
            gc.freeze()


def serve(
    *,
    head: str | None,
    resources: str | None,
    name: str | None,
    log_level: str,
    context: str | None = None,
    echo_output: bool = False,
    insecure: bool = False,
    wait: bool = False,
    patience: float = RETURN_S,
    keep_scratch: str | None = None,
    idle: str | None = None,
    store: str | None = None,
    scratch: str | None = None,
    scratch_limit: str | None = None,
    data: str | None = None,
) -> int:
    """Run a worker with the options of the command line; return the exit code, having said why it is not 0."""
    reserve_standard_descriptors()
    reset_signals()
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(name)s %(levelname)s %(message)s")
    unfit = why_no_processes()
    if unfit:
        print(f"grainlike worker: {unfit}", file=sys.stderr)  # noqa: T201 - a command line speaks
        return USAGE
    try:
        with _option("resources"):
            offer = offer_of_daemon(parse(resources) if resources else None)
        if name is not None and any("\ud800" <= letter <= "\udfff" for letter in name):  # bytes that are no UTF-8
            raise _OptionError(f"name: {name!r} is not valid UTF-8")
        with _option("idle"):
            idle_s = None if idle is None else WallTime(idle).walltime
        with _option():
            limits = store_limits(StoreOptions(store, scratch, scratch_limit), offer)
        with _option("data"):
            data = "" if data is None else check_data_option(data)
        _warn_of_slips(offer)
        if keep_scratch is not None:
            os.environ[KEEP] = keep_scratch
        refusal = why_not(context) if context is not None else None
        if refusal is not None:
            raise _OptionError(f"context: {refusal}")
    except _OptionError as error:
        print(f"grainlike worker: --{error}", file=sys.stderr)  # noqa: T201 - a command line speaks
        return USAGE
    try:
        way = to_head(head, insecure=insecure)
        work = partial(_serve, wait=wait, patience=patience, echo=echo_output, context=context or "")
        work = partial(work, left_s=end_of_batch_job(offer, chosen=resources is not None), idle_s=idle_s)
        work = partial(work, limits=limits, data=data)
        if not gc.isenabled():  # as it is while modules are loaded; those that are there now stay
            gc.freeze()
            gc.enable()
        return anyio.run(work, way, offer, name or _own_name(), backend_options=loop_options())
    except (GrainlikeError, OSError, ValueError) as error:
        print(f"grainlike worker: {error}", file=sys.stderr)  # noqa: T201
        return OK if isinstance(error, BlockEndedError) else NO_HEAD


class _OptionError(Exception):
    """Raised for an option of the command line that cannot be; the message begins with its name."""


@contextmanager
def _option(name: str | None = None) -> Iterator[None]:
    """Raise `_OptionError` if the block refuses the value of an option; by itself its message begins with the name."""
    try:
        yield
    except ValueError as error:
        words = str(error).replace("scratch_limit:", "scratch-limit:", 1) if name is None else f"{name}: {error}"
        raise _OptionError(words) from error


def _own_name() -> str:
    """Return `LABEL.N` for node N of a block, else the name of the host."""
    label = block_label(os.environ)
    return f"{label}.{node_rank(os.environ)}" if label else socket.gethostname()


def _warn_of_slips(offer: Allocation) -> None:
    for given in offer.units:
        near = near_name(given)
        if near is not None:
            logger.warning("--resources: only jobs that ask for %s by this name get it; did you mean %s?", given, near)


async def _serve(
    way: HeadLocator,
    offer: Allocation,
    name: str,
    *,
    wait: bool,
    patience: float,
    echo: bool,
    context: str,
    limits: StoreLimits,
    left_s: float | None = None,
    idle_s: float | None = None,
    data: str = "",
) -> int:
    check_introduction(name, offer)
    warn_of_logical(offer)
    warn_of_memory(offer)
    failure: Exception | None = None
    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        await tasks.start(stop_at_signal, stop.set, tasks.cancel_scope.cancel)
        timer = None
        if idle_s is not None:
            timer = IdleTimer(idle_s, stop.set)
            tasks.start_soon(timer.run)
        end = EndTimer(left_s, 0.0 if left_s is None else grace_before_end(left_s), stop.set)
        tasks.start_soon(end.run)
        serving = partial(serve_daemon, offer=offer, name=name, stop=stop, echo=echo, context=context, limits=limits)

        async def work(link: Link) -> None:
            await serving(link, idle=timer, end=end, access=way.access, data=data)

        try:
            await _serve_heads(way, work, offer, name, stop, wait=wait, patience=patience, idle=timer)
        except (GrainlikeError, OSError, ValueError) as error:  # kept out of the group, which would wrap it
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return OK


async def _serve_heads(
    way: HeadLocator,
    work: Callable[[Link], Awaitable[None]],
    offer: Allocation,
    name: str,
    stop: anyio.Event,
    *,
    wait: bool,
    patience: float,
    idle: IdleTimer | None = None,
) -> None:
    """Serve as one incarnation after another, each of which ends when its head gives it up; until the head closes.

    A head that returns may be away when we start again, so it is waited for then, too.

    Raises:
        HeadLostError: it was away for too long, or did not let us in.
    """
    within = math.inf if wait else 0.0
    pauses = waits()
    timer = IdleTimer(math.inf, stop.set) if idle is None else idle
    rests = partial(timer.look, idle=True)
    while (link := await wait_for_head(way, stop, within, rests)) is not None:
        timer.look(idle=False)  # until it has joined: no head could send it a job
        if link.role is None and link.peer.startswith("tcp:"):
            words = "INSECURE: the link to %s has no TLS; whoever listens there runs code as this user"
            logger.warning(words, link.peer)
        logger.info("worker %s offers %s to the head at %s", name, shown_amounts(str(offer)), link.peer)
        lasting = ReconnectingLink(link, way.again, LOST_S, patience)
        lasting.admitted = rests
        try:
            await work(lasting)
        except HeadLostError as error:
            if stop.is_set() or not (lasting.joined or within):
                raise
            logger.warning("worker %s starts again: %s", name, error)
            within = max(within, patience if lasting.returns else 0.0)
            pauses = waits() if lasting.joined else pauses
            with anyio.move_on_after(next(pauses)):
                await stop.wait()
        else:
            if lasting.in_vain and not stop.is_set():
                raise HeadLostError(f"worker {name} has ended: {lasting.reason}")
            logger.info("worker %s has ended: %s", name, lasting.reason)
            return


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return seconds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m grainlike_worker", description="Serve this machine's slots to a head."
    )
    parser.add_argument(
        "--head", metavar="ADDRESS_OR_ACCESS_FILE", help="the head's address or access file (default: the current head)"
    )
    parser.add_argument(
        "--resources",
        metavar="TEXT",
        help="what to offer, as 'cores=16 memory=64Gi' (default: what its batch job was granted, or all it may use)",
    )
    parser.add_argument(
        "--name", help="what the worker is called (default: the host's name, or LABEL.N on node N of a block)"
    )
    parser.add_argument(
        "--context", metavar="MODULE:FACTORY", help="a context manager around each process that runs jobs: GVAR.context"
    )
    parser.add_argument(
        "--keep-scratch",
        choices=KEEPS,
        help=f"leave the scratch directories of failed jobs, or of all, on the disk (default: what {KEEP} says)",
    )
    parser.add_argument(
        "--echo-output", action="store_true", help="also show here what jobs write to their standard output and error"
    )
    parser.add_argument(
        "--insecure", action="store_true", help="serve a head that has no TLS, on this machine's loopback alone"
    )
    parser.add_argument(
        "--wait",
        action="store_true",
        help="wait for a head that does not listen yet, or has no access file yet",
    )
    parser.add_argument(
        "--idle", metavar="TIME", help="end after so long without a job, as 0:10:00, or seconds (default: never)"
    )
    parser.add_argument(
        "--patience",
        type=_seconds,
        default=RETURN_S,
        metavar="SECONDS",
        help="how long to wait for a head that keeps a journal when it is away (default: %(default)g)",
    )
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    _add_value_options(parser)
    return parser


def _add_value_options(parser: argparse.ArgumentParser) -> None:
    """Add the options about large values: where they are kept, and how others get them."""
    parser.add_argument(
        "--store", metavar="SIZE", help="shared memory for large values, as 8Gi (default: 30 %% of its memory)"
    )
    parser.add_argument(
        "--scratch", metavar="DIR", help="a disk for large values that do not fit there (default: that of $TMPDIR)"
    )
    parser.add_argument(
        "--scratch-limit", metavar="SIZE", help="how much of it they may take (default: 80 %% of what is free)"
    )
    parser.add_argument(
        "--data",
        metavar="HOST:PORT|off",
        help="where other workers get values from this one (default: any port of the address by which it reaches the "
        "head, and none without TLS; off: they pass the head)",
    )


if __name__ == "__main__":
    sys.exit(main())
