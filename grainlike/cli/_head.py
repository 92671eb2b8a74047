"""`head start` and `head stop`: a head that is a program of its own.

Keeps the collector of cyclic garbage from looking at a long queue again and again.

A full collection looks at every object there is: with a million queued jobs that takes most of a second, in which a
head answers no query. What has outlived one that took long is set aside, and looked at again when little of it is
left.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import anyio

from grainlike.cli._exits import FAILED, OK, REFUSED, USAGE
from grainlike.cli._words import escaped_line
from grainlike.client import BlockingClient
from grainlike.errors import GrainlikeError
from grainlike.net import (
    RETURN_S,
    current_folder,
    has_journal_note,
    how_to_go_on,
    is_elsewhere,
    is_locked,
    runs_here,
    state_directory,
)
from grainlike.subprocesses import reset_signals
from grainlike.wire import (
    AskDepart,
    AskHead,
    AskSessions,
    AskStop,
    AskWorkers,
    Done,
    HeadIs,
    Matched,
    SessionRow,
    SessionsAre,
    WorkersAre,
)

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from grainlike.head.durable import HeadDaemon

__all__ = ["collecting_less", "start_detached", "start_head", "stop_head"]


_LAST_LINES, _LAST_BYTES = 12, 16 * 1024
"""The most of a log that is shown of a head that could not start."""

_LOOK_S = 0.05
"""Seconds between two looks at the workers that end."""

_END_S = 10.0
"""Seconds that `head stop` waits for workers that it has ended, and for the process of a head that has closed its
connections.
"""

_PROGRESS = re.compile(r"\d{4}-\d\d-\d\d [\d:,]+ \S+ (?:DEBUG|INFO) ")

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
    # To stop a head, or to start one in the background, takes none of this.
    from grainlike.cli._head_log import HeadLog
    from grainlike.eventloop import loop_options
    from grainlike.head.durable import HeadDaemon
    from grainlike.head.server import listened_at

    words = "%(asctime)s %(name)s %(levelname)s %(message)s"
    handlers = None if log_file is None else [HeadLog(log_file)]
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
                _tell_of(before, has_journal=daemon.has_journal)
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


def _tell_of(before: Path | None, *, has_journal: bool) -> None:
    """Print how to reach the head that was the current one until now, and still runs; and, where this head has no
    journal, how one goes on that has left its journal.
    """
    if before is not None and before.exists() and before != current_folder():
        words = f"this is the current head now; the one before runs on, at --head {before / 'client.json'}"
        print(f"grainlike head: {words}", file=sys.stderr, flush=True)  # noqa: T201 - a command line speaks
    goes_on = "" if has_journal else how_to_go_on()
    if goes_on:
        words = f"this head begins without jobs and sessions; {goes_on}"
        print(f"grainlike head: {words}", file=sys.stderr, flush=True)  # noqa: T201 - a command line speaks


def _folder(access: Path | None) -> Path:
    return (state_directory() / "current").resolve() if access is None else access.expanduser().absolute().parent


def start_detached(arguments: list[str]) -> int:
    """Start `head start` with these arguments in a session of its own; return once it listens, or has failed to."""
    from grainlike.cli._head_log import open_log

    before = current_folder()
    try:
        handle, path = open_log()
    except OSError as error:
        print(f"grainlike head: {error}", file=sys.stderr)  # noqa: T201 - a command line speaks
        return REFUSED
    ours, theirs = os.pipe()
    command = ["-m", "grainlike", "head", "start", *arguments, "--ready", str(theirs), "--log-file", str(path)]
    with os.fdopen(handle, "ab") as log, os.fdopen(ours, "rb") as ready:
        process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[theirs],
            start_new_session=True,
        )
        os.close(theirs)
        said = ready.read().decode()
    if said:
        print(f"{said}; log in {path}", flush=True)  # noqa: T201 - a command line speaks
        _tell_of(before, has_journal="--journal" in arguments)
        return OK
    code = process.wait()
    for line in _reasons(path):
        print(escaped_line(line), file=sys.stderr)  # noqa: T201
    print(f"grainlike head: it has ended, with exit code {code}; see {path}", file=sys.stderr)  # noqa: T201
    return code or REFUSED


def _reasons(log: Path) -> list[str]:
    """Return the last lines of the log of a head that has ended, without those that tell of its progress."""
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES))
        lines = file.read().decode(errors="backslashreplace").splitlines()
        return [line for line in lines if line.strip() and not _PROGRESS.match(line)][-_LAST_LINES:]
    return []


async def stop_head(caller: BlockingClient, *, forget: bool, workers: bool) -> int:
    """Stop a head, wait until it has exited, where that can be seen from here, and print what it has kept of sessions,
    or dropped. With `workers`, end these first. Return the exit code, which is `FAILED` where the disk refuses what
    sessions keep, or where a worker has not ended.
    """
    head = await caller.ask(AskHead(0), HeadIs)
    all_ended = not workers or await _end_all_workers(caller)
    sessions = (await caller.ask(AskSessions(0), SessionsAre)).sessions
    held = [session for session in sessions if session.names or session.jobs]
    failure = head.journal if head.journal.startswith("not kept") else ""
    # Of a head elsewhere a file server would show its note for half a minute after it has gone.
    seen = bool(head.directory) and not is_elsewhere(caller.process)
    noted = seen and has_journal_note(head.cluster, Path(head.directory))
    await caller.ask(AskStop(0, forget), Done)
    await caller.gone()
    _wait_for_end(caller.process if head.ends_process else "", head.directory if noted else "")
    print("stopped")  # noqa: T201
    if forget:
        # The note goes once the end is in the journal, whatever the disk said before; who sees no note goes by that.
        stays = has_journal_note(head.cluster, Path(head.directory)) if noted else bool(failure)
        lines, refused = _dropped(held, head.directory if stays else ""), stays
    else:
        lines, refused = _fate(held, head.directory, failure, workers_stay=not workers), bool(failure)
    for line in lines:
        print(escaped_line(line))  # noqa: T201
    return FAILED if (held and refused) or not all_ended else OK


async def _end_all_workers(caller: BlockingClient) -> bool:
    """End all workers, with their jobs, and wait until they have left, for a head that has gone could tell them
    nothing; print which have, and which have not. Return False if some have not.
    """
    told = (await caller.ask(AskDepart(0, ["*"], kill=True), Matched)).workers
    due = time.monotonic() + _END_S
    while (stay := await _workers_there(caller)) and time.monotonic() < due:
        await caller.pause(_LOOK_S)
    if ended := [name for name in told if name not in stay]:
        print(escaped_line(f"{_workers(ended)} ended"))  # noqa: T201
    if stay:
        have = "has" if len(stay) == 1 else "have"
        print(escaped_line(f"{_workers(stay)} {have} not ended within {_END_S:g} s, and may still run"))  # noqa: T201
    return not stay


async def _workers_there(caller: BlockingClient) -> list[str]:
    return [worker.name for worker in (await caller.ask(AskWorkers(0), WorkersAre)).workers]


def _workers(names: list[str]) -> str:
    return f"{'worker' if len(names) == 1 else 'workers'} {', '.join(names)}"


def _wait_for_end(process: str, journal: str) -> None:
    """Wait until the process of a head has ended, or has left its journal, if it is of this machine: until then it has
    the lock of that, and its port. Both are empty where that says nothing.
    """
    due = time.monotonic() + _END_S
    while (runs_here(process) or (journal and is_locked(Path(journal)))) and time.monotonic() < due:
        time.sleep(0.01)


def _dropped(held: list[SessionRow], journal: str) -> Iterator[str]:
    """Iterate over the lines that say what was dropped of the sessions that held anything; or, with a `journal`, that
    the disk has refused that.
    """
    if held and journal:
        yield f"the disk refuses: that these are dropped is not in the journal in {journal}"
    for session in held:
        yield f"{'not dropped' if journal else 'dropped'}: {_held_by(session)}"
    if held and journal:
        yield "a head with that journal would go on with it: make room, start one and stop it so, or remove the journal"


def _held_by(session: SessionRow) -> str:
    outcomes = f"{session.outcomes} outcome{'s' * (session.outcomes != 1)}"
    jobs = f"{session.jobs} job{'s' * (session.jobs != 1)} that had not ended" if session.jobs else ""
    return f"session {session.name!r}, {' and '.join(filter(None, (outcomes, jobs)))}"


def _fate(held: list[SessionRow], journal: str, failure: str, *, workers_stay: bool) -> Iterator[str]:
    """Iterate over the lines that say what a head that was stopped has kept in its journal of the sessions that held
    anything, or that it has dropped that for want of one. `failure` says why the journal was not kept at the end,
    `workers_stay` whether workers may wait for the next head.
    """
    if held and failure:
        yield f"the journal in {journal} was {failure}"
    for session in held:
        kept = "not all of it kept" if failure else f"kept in {journal}"
        yield f"{kept if journal else 'dropped'}: {_held_by(session)}"
    if held and journal:
        command = f"grainlike head start --journal {shlex.quote(journal)}"
        known = "what was written before" if failure else "that"
        yield f"`{command}` goes on with {known}; `grainlike head stop --forget` would have dropped it"
        if workers_stay:
            wait = f"workers go on with their jobs, and wait {RETURN_S:g} s for that head"
            yield f"{wait}; `grainlike head stop --workers` would have ended them"


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
