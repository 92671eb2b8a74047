"""Native commands, which run with a time limit in an environment of their own, and are ended with all their processes.
Also the question to a batch system whether it would accept a block.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO

import anyio
from anyio.abc import Process

from grainlike.dialects import BlockRequest, CommandResult, Dialect, NativeCommand, native_environment
from grainlike.errors import LaunchError

__all__ = ["NATIVE_S", "ask_each_whether_taken", "ask_whether_taken", "run_native", "start_process"]

NATIVE_S = 30.0
"""Seconds that a native command may take; `sbatch` gives up by itself after 10 s (Slurm's `MessageTimeout`)."""

_MOST_OUTPUT = 64 * 2**20
"""Most bytes that are read of a command's output: a listing of 100 000 jobs has 10 MiB."""

_UNDER_UMASK = ("/bin/sh", "-c", 'umask 077; exec "$@"', "sh")
"""Words before a command, so that it runs with the umask with which Slurm makes the log, because uvloop sets none."""

_NOT_FOUND, _NOT_ALLOWED = 127, 126
"""Exit codes of shells for a command that does not exist, or cannot be run."""

_UNASKED = (None, _NOT_FOUND, _NOT_ALLOWED, 255)
"""Exit codes of a question that nothing has answered; 255 is that of `ssh`."""


async def run_native(
    command: NativeCommand, environment: Mapping[str, str], *, timeout: float = NATIVE_S
) -> CommandResult:
    """Run a native command, and return its output. A command that did not end within `timeout` seconds has no exit
    code.

    Nothing raises but cancellation: a missing program ends with exit code 127, as in a shell. When the time is over, or
    the caller is cancelled, all processes of the command are killed with it. Otherwise they may stay, like the shared
    connection of `ssh`. Texts go through memory only, because they may be access files.

    Example::

        said = await run_native(NativeCommand(("squeue", "-h")), {"PATH": "/usr/bin"})
    """
    with contextlib.ExitStack() as stack:
        stdin, stdout, stderr = (stack.enter_context(_file_in_memory()) for _ in range(3))
        stdin.write(command.stdin.encode("utf-8", "surrogateescape"))
        stdin.seek(0)
        if shutil.which(command.argv[0], os.X_OK, environment.get("PATH")) is None:
            if os.path.lexists(command.argv[0]):  # noqa: ASYNC240 - as quick as looking for it
                return CommandResult(_NOT_ALLOWED, "", f"{command.argv[0]}: {os.strerror(errno.EACCES)}")
            return CommandResult(_NOT_FOUND, "", f"{command.argv[0]}: command not found in {_path(environment)}")
        try:
            process = await start_process([*_UNDER_UMASK, *command.argv], environment, stdin, stdout, stderr)
        except OSError as error:
            return CommandResult(_NOT_ALLOWED, "", f"{command.argv[0]}: {error.strerror}")
        code = await _ended(process, timeout)
        said = CommandResult(code, _text(stdout), _text(stderr))
    if code is None and not said.stderr:
        return CommandResult(None, said.stdout, f"{command.argv[0]} gave no answer within {timeout:g} s")
    return said


async def start_process(
    argv: Sequence[str],
    environment: Mapping[str, str],
    stdin: int | IO[bytes],
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
) -> Process:
    """Start a process in a session of its own. Cancellation waits until it has started, because asyncio leaves a
    process behind if its start is cancelled.

    Raises:
        OSError: the program cannot be run, or no process can be made.
    """
    with anyio.CancelScope(shield=True):
        return await anyio.open_process(
            argv, stdin=stdin, stdout=stdout, stderr=stderr, env=dict(environment), start_new_session=True
        )
    raise AssertionError("nobody cancels this scope")


async def _ended(process: Process, timeout: float) -> int | None:
    """Wait for a process; return its exit code, or None if it had to be killed. It is reaped in any case."""
    try:
        with anyio.move_on_after(timeout):
            return await process.wait()
        return None
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
            await process.aclose()


def _file_in_memory() -> IO[bytes]:
    """Return an open file without a name. It never fills like a pipe, and no leftover process holds it open."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("grainlike-native"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_MOST_OUTPUT).decode("utf-8", "replace")


def _path(environment: Mapping[str, str]) -> str:
    return f"PATH={environment['PATH']}" if environment.get("PATH") else "an empty PATH"


async def ask_whether_taken(dialect: Dialect, block: BlockRequest, via: str) -> str:
    """Return the batch system's answer to a block that it would accept.

    Raises:
        LaunchError: it would not accept the block, or gives no answer.
    """
    environment = native_environment(os.environ, dialect.finders, block.env)
    command = dialect.check(block)
    said = await run_native(_through(command, via), environment)
    answer = dialect.checked(said)
    if answer.native:  # this system has no dry run, so the block was submitted on hold
        await run_native(_through(dialect.end([answer.native]), via), environment)
    if answer.verdict in ("accepted", "waits"):
        return answer.words
    answered = answer.verdict != "unclear" and said.code not in _UNASKED
    raise LaunchError(answer.words, command.argv, dialect.script(block), answered=answered)


async def ask_each_whether_taken(dialect: Dialect, blocks: Mapping[str, BlockRequest], via: str) -> str:
    """Return the answers of machines to a block, one line for each; one machine that would accept it is enough.

    Raises:
        LaunchError: no machine would accept it.
    """
    said = dict.fromkeys(blocks, "")
    refusals: dict[str, LaunchError] = {}

    async def ask(machine: str) -> None:
        try:
            said[machine] = await ask_whether_taken(dialect, blocks[machine], via)
        except LaunchError as error:
            refusals[machine], said[machine] = error, error.words

    async with anyio.create_task_group() as tasks:
        for machine in blocks:
            tasks.start_soon(ask, machine)
    words = "\n".join(f"{machine}: {text}" for machine, text in said.items())
    if len(refusals) < len(blocks):
        return words
    first = next(iter(refusals.values()))
    answered = any(refusal.answered for refusal in refusals.values())
    raise LaunchError(words, first.command, first.script, answered=answered)


def _through(command: NativeCommand, via: str) -> NativeCommand:
    return command.via(via) if via else command
