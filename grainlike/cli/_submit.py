"""`submit`: commands as jobs, on a head's workers or, run once, on slots of this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TextIO

import anyio
import msgspec

from grainlike.cli._commands import Command, read_commands, read_request
from grainlike.cli._exits import FAILED, OK, REFUSED, UNREAD
from grainlike.cli._words import escaped, escaped_line, json_text
from grainlike.cli._words import seconds as in_words
from grainlike.errors import GrainlikeError
from grainlike.executor import NOT_GIVEN, Executor
from grainlike.graph import Delayed, delayed, info, start
from grainlike.jobs import LogLine
from grainlike.resources import Request, parse, shown_amounts
from grainlike.subprocesses import run_command

__all__ = ["UsageError", "submit"]

_LOOK_S = 0.1
"""Seconds between two checks of whether a job has started."""

_REASON_S = 5.0
"""Seconds for which a job has waited when its reason is printed; a reason that has changed is printed as often."""

_NUMBER = re.compile(r"\d+")

_LAST_LINES = 10
"""Number of a command's last lines that are printed when it fails."""

_LINE_MOST = 500
"""Most characters of each of them."""


class UsageError(ValueError):
    """Raised when the options contradict each other or are invalid."""


def submit(
    words: Sequence[str],
    *,
    requests: Sequence[str],
    file: TextIO | None,
    offer: str | None,
    run_once: bool,
    head: str | None,
    insecure: bool,
    env: Sequence[str],
    lenient: bool,
    as_json: bool,
    bars: bool,
) -> int:
    """Run commands as jobs, showing what they print; return the exit code.

    With `run_once` on an `offer` of this machine's slots; else on the workers of `head`, by default the current one.
    With `bars`, a terminal shows how far they are.

    Raises `UsageError`.
    """
    if offer is not None and not run_once:
        raise UsageError("--resources is what this machine offers with --run-once; what a command asks for is -r TEXT")
    if run_once and (head is not None or insecure):
        raise UsageError("--run-once does without a head")
    try:
        warnings: list[str] = []
        commands = _commands(words, " ".join(requests) or None, file, lenient=lenient, warn=warnings)
        local = NOT_GIVEN if offer is None else _offer(offer)
        variables = _variables(env)
        folder = _folder()
        executor = Executor(local=local, on_failure="continue", echo=False) if run_once else None
    except ValueError as error:
        raise UsageError(str(error)) from error
    for warning in warnings:
        _say(warning)

    async def main() -> int:
        async with executor or _connected(head, insecure=insecure) as opened:
            with _progress() if bars else nullcontext():
                return await _Submission(opened, commands, folder, variables).run(as_json=as_json)

    try:
        return anyio.run(main)
    except (GrainlikeError, OSError, ValueError) as error:
        _say(str(error))
        return REFUSED


def _connected(head: str | None, *, insecure: bool) -> Executor:
    from grainlike.executor import connect  # without a head, nothing that connects to one

    return connect(head, insecure=insecure, on_failure="continue")


def _progress() -> AbstractContextManager[object]:
    from grainlike.executor import progress  # without bars, nothing of what draws them

    return progress()


def _offer(text: str) -> Request:
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"--resources: {error}") from error


def _commands(
    words: Sequence[str], request: str | None, file: TextIO | None, *, lenient: bool, warn: list[str]
) -> list[Command]:
    """Return all commands that are to be run."""
    if bool(words) == (file is not None):
        raise UsageError("give one command, after --, or a --file of them")
    if file is not None:
        found = read_commands(file, request, lenient=lenient, warn=warn)
        if not found:
            raise UsageError(f"there is no command in {file.name}")
        return found
    if not words[0]:
        raise UsageError("the command has no name: its first word is empty")
    if request is None:
        raise UsageError("give -r TEXT, what the command asks for, as -r 'cores=1'")
    try:
        asked = read_request(request, lenient=lenient, warn=warn)
    except ValueError as error:
        raise UsageError(f"-r: {error}") from error
    return [Command(tuple(words), asked)]


def _folder() -> str:
    """Return the folder of this process, in which the commands run."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        raise UsageError("commands run in this folder, and somebody has removed it: go to one that is there") from None


def _variables(given: Sequence[str]) -> dict[str, str]:
    """Return the variables of `--env`, with values of this process's own for names alone."""
    variables = {}
    for one in given:
        name, is_set, value = one.partition("=")
        if not name or not (is_set or name in os.environ):
            raise UsageError(f"--env {one}: there is no variable of this name here; write NAME=VALUE")
        variables[name] = value if is_set else os.environ[name]
    return variables


class _Submitted(msgspec.Struct):
    """State of one command."""

    number: int
    command: Command
    placeholder: Delayed[None]
    attempt: int = 0
    """Last attempt that has started."""
    ended: bool = False
    error: Exception | None = None
    last_lines: deque[str] = msgspec.field(default_factory=lambda: deque(maxlen=_LAST_LINES))
    """Last lines that it wrote, on either stream."""


class _Submission:
    """The commands of one call of `submit`."""

    def __init__(
        self, executor: Executor, commands: Sequence[Command], folder: str, variables: Mapping[str, str]
    ) -> None:
        self._executor = executor
        self._variables = dict(variables)
        self._folder = folder
        self._out = sys.stdout
        self._unread = False
        self._followers = anyio.CancelScope()
        self._jobs = [self._submit(number, command) for number, command in enumerate(commands, 1)]

    def _submit(self, number: int, command: Command) -> _Submitted:
        words = [*command.words]
        name = escaped(Path(words[0]).name or words[0])
        call = (delayed(run_command, name=name) @ command.request)(words, self._folder, self._variables)
        return _Submitted(number, command, call)

    async def run(self, *, as_json: bool) -> int:
        """Run all, and print the outcomes; the exit code is 1 when any failed. What cannot be printed changes none."""
        began = anyio.current_time()
        self._out = sys.stderr if as_json else sys.stdout
        for job in self._jobs:
            start(job.placeholder)
            self._tell(job, f"scheduled (requires {job.command.request}): {job.command}")
        try:
            await self._follow_all()
        except anyio.get_cancelled_exc_class():
            self._sum_up(anyio.current_time() - began, as_json=as_json)
            raise
        if not self._unread:
            self._sum_up(anyio.current_time() - began, as_json=as_json)
        failed = any(job.error is not None for job in self._jobs)
        return FAILED if failed else OK if all(job.ended for job in self._jobs) else UNREAD

    async def _follow_all(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._look_for_starts)
            async with anyio.create_task_group() as followers:
                self._followers = followers.cancel_scope
                if self._unread:
                    self._followers.cancel()
                for job in self._jobs:
                    followers.start_soon(self._follow, job)
            tasks.cancel_scope.cancel()

    def _sum_up(self, took: float, *, as_json: bool) -> None:
        """Print how many ended in which way; when interrupted, which had not: they are about to be cancelled."""
        failed = sum(job.error is not None for job in self._jobs)
        open_ = [job for job in self._jobs if not job.ended]
        for job in open_:
            self._note_start(job)
            self._tell(job, "interrupted while it ran" if job.attempt else "interrupted before it started")
        if len(self._jobs) > 1 or open_:
            counts = f"{len(self._jobs) - failed - len(open_)} succeeded, {failed} failed"
            interrupted = f", {len(open_)} interrupted" if open_ else ""
            self._say(f"{counts}{interrupted} in {took:.1f} s")
        if as_json:
            self._print(json_text([_told(job) for job in self._jobs]), sys.stdout)

    async def _follow(self, job: _Submitted) -> None:
        """Show what a job prints until it has ended, and then how."""
        try:
            async for line in self._executor.logs(job.placeholder):
                if line.stream == "traceback":
                    continue  # of ours: the command's exit code is told
                self._note_start(job)
                job.last_lines.append(line[:_LINE_MOST])
                self._show(job, line)
            await job.placeholder
        except Exception as error:  # noqa: BLE001 - whatever became of it is told
            job.error = error
        self._ended(job)

    def _show(self, job: _Submitted, line: LogLine) -> None:
        mark = f"[{job.number}] " if len(self._jobs) > 1 else ""
        self._print(mark + escaped_line(line), self._out if line.stream == "stdout" else sys.stderr)

    def _print(self, text: str, where: TextIO) -> None:
        """Print text. Where it is read no more, as by `| head`, what still runs ends with us. Where it cannot be
        written for another reason, as on a full disk, it is lost, and commands go on.
        """
        try:
            print(text, file=where, flush=True)
        except UnicodeEncodeError:
            self._print(text.encode(where.encoding, "backslashreplace").decode(where.encoding), where)
        except BrokenPipeError:
            _discard(where)
            self._stop_unread()
        except OSError as error:
            _discard(where)
            if where is not sys.stderr:
                self._say(f"what is printed is lost from here on, and commands go on: {error}")

    def _stop_unread(self) -> None:
        if not self._unread:
            self._unread = True
            self._followers.cancel()
            end = "" if all(job.ended for job in self._jobs) else ": commands that have not ended are cancelled"
            self._say(f"what is printed is read no more{end}")

    def _say(self, what: str) -> None:
        self._print(_said(what), sys.stderr)

    def _ended(self, job: _Submitted) -> None:
        job.ended = True
        self._note_start(job)
        usage = info(job.placeholder).usage
        after = "" if usage is None else f" after {in_words(usage.wall_s)}"
        if job.error is None:
            self._tell(job, f"completed{after}")
        else:
            last = next((line for line in reversed(job.last_lines) if line.strip()), "")
            words = f"; it wrote last: {last}" if last and len(self._jobs) > 1 else ""
            self._tell(job, f"failed{after}: {_why(job.error)}{words}")

    async def _look_for_starts(self) -> None:
        """Print starts, second ones too; and why the first job that waits does, once it has for a while."""
        since, said, here = anyio.current_time(), "", self._jobs
        while True:
            await anyio.sleep(_LOOK_S)
            here = [job for job in here if not job.ended]
            for job in here:
                self._note_start(job)
            if anyio.current_time() < since + _REASON_S:
                continue
            since = anyio.current_time()
            waits = next((job for job in here if not job.attempt), None)
            if waits is not None:
                why = str(await self._executor.explain(waits.placeholder))
                if _NUMBER.sub("", why) != said:
                    said = _NUMBER.sub("", why)
                    self._tell(waits, why)

    def _note_start(self, job: _Submitted) -> None:
        known = info(job.placeholder)
        if known.attempt > job.attempt and known.allocation is not None:
            job.attempt = known.attempt
            again = f"again (attempt {job.attempt}) " if job.attempt > 1 else ""
            self._tell(job, f"started {again}on {known.worker}, slots {shown_amounts(str(known.allocation))}")

    def _tell(self, job: _Submitted, what: str) -> None:
        self._say(f"[{job.number}] {what}")


def _said(what: str) -> str:
    return f"grainlike: {escaped(what)}"


def _say(what: str) -> None:
    print(_said(what), file=sys.stderr, flush=True)  # noqa: T201 - a command line speaks


def _discard(where: TextIO) -> None:
    """Let what is printed there from now on, and what is not written yet, go nowhere: Python would complain of it when
    it ends.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, where.fileno())
    os.close(nowhere)


def _why(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return f"exit code {error.returncode}" if error.returncode >= 0 else f"killed by signal {-error.returncode}"
    return str(error)


def _told(job: _Submitted) -> dict[str, Any]:
    known = info(job.placeholder)
    code = job.error.returncode if isinstance(job.error, subprocess.CalledProcessError) else None
    return {
        "number": job.number,
        "command": list(job.command.words),
        "request": str(job.command.request),
        "state": known.state,
        "exit_code": 0 if job.ended and job.error is None else code,
        "error": "interrupted" if not job.ended else None if job.error is None else _why(job.error),
        "last_lines": [] if job.error is None else list(job.last_lines),
        "worker": known.worker,
        "slots": None if known.allocation is None else str(known.allocation),
        "attempt": known.attempt,
        "seconds": None if known.usage is None else known.usage.wall_s,
    }
