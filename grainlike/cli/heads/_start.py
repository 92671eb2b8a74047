"""`head start`: a head that is a program of its own.

The collector of cyclic garbage is kept from looking at a long queue again and again (`collecting_less`). A full
collection looks at every object there is: with a million queued jobs that takes most of a second, in which a
head answers no query. What has outlived one that took long is set aside, and looked at again when little of it is
left.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import anyio

from grainlike.cli._exits import OK, REFUSED, USAGE
from grainlike.cli.heads._detached import tell_of
from grainlike.errors import GrainlikeError
from grainlike.eventloop import loop_options
from grainlike.head.durable import HeadDaemon
from grainlike.head.server import listened_at
from grainlike.net import current_folder, state_directory
from grainlike.subprocesses import reset_signals

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

__all__ = ["collecting_less", "start_head"]

logger = logging.getLogger("grainlike")


def start_head(
    listen: str | None,
    access: Path | None,
    *,
    insecure: bool,
    log_level: str,
    run_once: bool = False,
    journal: Path | None = None,
    salvage: bool = False,
    record: bool = False,
    keep: int | None = None,
    no_launch: bool = False,
    events: str | None = None,
    metrics: str | None = None,
    ready: int | None = None,
    log_file: Path | None = None,
    dashboard: tuple[str, int] | None = None,
) -> int:
    """Run a head until a signal or a client ends it, or (`run_once`) the work of its programs is done.

    Without `listen`, it listens where the head before it with this journal did, else on all interfaces.

    With `journal`, SIGTERM leaves the work for the next head with this directory; so do Ctrl-C and a client that stops
    it, where sessions have names or jobs.

    With `dashboard`, host and port, it serves pages for browsers there.

    Returns the exit code. What it prints goes to `ready` too, if given, and its log to `log_file`, which it rotates.

    Raises `ValueError` for what is no address, or no access file of a head.
    """
    words = "%(asctime)s %(name)s %(levelname)s %(message)s"
    handlers = None if log_file is None else [_log(log_file)]
    logging.basicConfig(level=log_level.upper(), format=words, handlers=handlers)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it has a line for each question to Kubernetes
    before = None if journal is None or access is not None else listened_at(journal.expanduser() / "access")
    daemon = HeadDaemon(
        listen or before or "tcp://0.0.0.0:0",
        access=access,
        insecure=insecure,
        run_once=run_once,
        journal=journal,
        salvage=salvage,
        record=record,
        keep=keep,
        no_launch=no_launch,
        events=events,
        metrics=metrics,
        ends_process=True,
    )
    reset_signals()
    try:
        with collecting_less():
            anyio.run(_serve, daemon, access, ready, events == "-", dashboard, backend_options=loop_options())
    except ImportError as error:
        print(f"grainlike head: {error}", file=sys.stderr)  # noqa: T201 - a command line speaks
        return USAGE
    except (GrainlikeError, OSError) as error:
        print(f"grainlike head: {error}", file=sys.stderr)  # noqa: T201 - a command line speaks
        return REFUSED
    return OK


async def _serve(
    daemon: HeadDaemon, access: Path | None, ready: int | None, quiet: bool, pages: tuple[str, int] | None
) -> None:
    """Serve until it is told to stop. `quiet`: the standard output is for events alone."""
    before = current_folder()
    failure: Exception | None = None
    async with daemon:
        async with anyio.create_task_group() as tasks:
            await tasks.start(_stop_at_signal, daemon)  # first: who reads that it is there may stop it at once
            try:
                words = f"head at {daemon.address}, process {os.getpid()}; access files in {_folder(access)}"
                if daemon.metrics_address is not None:
                    words += f"; metrics at http://{daemon.metrics_address}/metrics"
                if pages is not None:
                    from grainlike.cli.screens._dashboard import beside_head  # it takes more packages

                    dashboard = beside_head(daemon.connect_viewer, pages)
                    await tasks.start(dashboard.serve)
                    words += f"; dashboard: {dashboard.link()}"
                print(words, file=sys.stderr if quiet else sys.stdout, flush=True)
                tell_of(before, has_journal=daemon.has_journal)
                if ready is not None:
                    os.write(ready, words.encode())
                    os.close(ready)
                await daemon.stop.wait()
            except Exception as error:  # noqa: BLE001 - raised below, where the group does not wrap it
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        logger.info("stopping after %s; a second signal does not wait for jobs to end", daemon.report())


async def _stop_at_signal(daemon: HeadDaemon, *, task_status: TaskStatus[None]) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for number in signals:
            logger.info("told to stop: %s", number.name)
            daemon.end_soon()
            daemon.leaves |= number == signal.SIGTERM
            if daemon.leaves and number == signal.SIGINT:
                logger.info("sessions keep something: the next head with this journal goes on with it")
            return


def _folder(access: Path | None) -> Path:
    return (state_directory() / "current").resolve() if access is None else access.expanduser().absolute().parent


def _log(path: Path) -> logging.Handler:
    from grainlike.cli.heads._log import HeadLog  # a head in the foreground has none

    return HeadLog(path)


_LONG_S = 0.005
"""Seconds that a full collection may take without anything being set aside for it."""

_FEW = 50_000
"""Number of objects below which what was set aside is looked at again: that is quick then."""


@contextmanager
def collecting_less() -> Iterator[None]:
    """Context manager: collect garbage less often in this process. Garbage in what was set aside stays for so long."""
    begun = 0.0

    def note(phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        nonlocal begun
        if info["generation"] < 2:
            return
        if phase == "start":
            begun = time.perf_counter()
            return
        if time.perf_counter() - begun > _LONG_S:
            gc.freeze()
        elif 0 < gc.get_freeze_count() < _FEW:
            gc.unfreeze()

    gc.callbacks.append(note)
    try:
        yield
    finally:
        gc.callbacks.remove(note)
        gc.unfreeze()
