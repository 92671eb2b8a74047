"""The daemon's side of a runner: start the process, hold its link, signal it, see it gone."""

import os
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager

import anyio

from grainlike.net import Link, adopt
from grainlike.scheduler import RunnerKind
from grainlike.wire import StopReason
from grainlike_worker.daemon._child import ProcessHandle, Surroundings, describe_exit, start_child
from grainlike_worker.daemon._keeper import KeeperClient
from grainlike_worker.daemon._output_pipes import OutputPipes
from grainlike_worker.ipc._claims import ClaimPage
from grainlike_worker.ipc._signals import FLUSH_SIGNAL
from grainlike_worker.ipc._steps import TOLD, StackFile, StepPage

__all__ = ["RunnerProcess", "describe_exit"]

STACK_S = 5.0
"""Seconds for which a stack is waited for: a signal handler writes it, without locks, but the machine may be busy."""

_SETTLED_S = 0.1
"""Seconds between two looks at a stack; it is there in full when the second finds no more than the first."""


class RunnerProcess:
    """A runner, from `spawn` until `wait` has returned and `aclose` has let go of what the daemon held.

    The kernel ends the process when the *thread* that spawned it, or its keeper, ends: spawn from the event loop's
    thread, never from a pool's. It leads a session and process group of its own, so that what it started goes with it.

    Example::

        runner = await RunnerProcess.spawn("own")
        runner.link.post(Setup("n1", sys.path))
        tasks.start_soon(runner.link.run, on_frames)
        print(describe_exit(await runner.wait()))
        await runner.aclose()
    """

    def __init__(
        self,
        process: ProcessHandle,
        link: Link,
        claims: ClaimPage | None,
        output: OutputPipes,
        steps: StepPage | None,
        stacks: StackFile | None,
        held: ExitStack,
        scratch: str = "",
    ) -> None:
        self.link = link
        self.claims = claims
        self.output = output
        self.steps = steps
        self.scratch = scratch
        """Below which its jobs find directories, where a keeper tells them."""
        self._stacks = stacks
        self.pid = process.pid
        self._process = process
        self._held = held

    @classmethod
    async def spawn(
        cls,
        kind: RunnerKind,
        *,
        keeper: KeeperClient | None = None,
        env: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        surroundings: Surroundings | None = None,
    ) -> "RunnerProcess":
        """Start a runner; `env` comes on top of the surroundings, which are this process's if none are given, and
        `options` are for `runner.main`.

        With a keeper it is forked from that; without one it is a new interpreter, which takes longer, and what its jobs
        leave behind in sessions of their own is ended when it ends in good order, but not when it is killed.
        An "own" runner shares a page of `claims` with this process. Its standard output and error are pipes, and what
        its jobs log comes through another: `output`, which is not read yet. The link is trusted; no other code runs
        it yet. Starting blocks the loop for about a millisecond. `OSError` when the system has no process or
        descriptor left.
        """
        with ExitStack() as stack:
            claims = stack.enter_context(closing(ClaimPage.create())) if kind == "own" else None
            output = stack.enter_context(closing(OutputPipes(framed=kind == "shared")))
            steps = stacks = None
            if kind == "shared":
                steps = stack.enter_context(closing(StepPage.create()))
                stacks = stack.enter_context(closing(StackFile()))
            lifeline, held_end = os.pipe()
            stack.callback(os.close, held_end)
            with _closing_fd(lifeline):
                near, far = socket.socketpair()
                fds = {"--fd": far.fileno(), "--lifeline": lifeline, **output.given}
                if steps is not None and stacks is not None:
                    fds |= {"--steps": steps.fd, "--stacks": stacks.fd}
                if claims is not None:
                    fds["--claims"] = claims.fd
                with far, _closed_by_errors(near):
                    given = Surroundings.now() if surroundings is None else surroundings
                    environment = {**given.environment(), **(env or {})}
                    process = await _start([f"--{kind}", *options], environment, fds, keeper, given.directory)
            output.close_given()
            try:
                link = await adopt(near, f"runner {process.pid}")
            except BaseException:
                with anyio.CancelScope(shield=True):
                    process.kill()
                    await process.wait()
                raise
            link.trust()
            scratch = "" if keeper is None else keeper.scratch_of(process.pid)
            return cls(process, link, claims, output, steps, stacks, stack.pop_all(), scratch)

    @property
    def returncode(self) -> int | None:
        """The exit code, the negative number of the signal that killed it, or None until `wait` has seen the end."""
        return self._process.returncode

    async def wait(self) -> int:
        """Wait until the process has ended and what is left of it is gone; return its exit code.

        May be called by several tasks and again. Cancelling it changes nothing.
        """
        return await self._process.wait()

    def terminate(self, reason: StopReason = StopReason.UNSAID) -> None:
        """Ask it to end: the running job sees `SystemExit` or its loop's cancellation, with the reason. Nothing once it
        was reaped.
        """
        if self.claims is not None and self.claims.fd >= 0:
            self.claims.told = reason
        if self.steps is not None and self.steps.fd >= 0:
            self.steps.words[TOLD] = reason
        self._process.send_signal(signal.SIGTERM)

    def flush(self) -> None:
        """Ask an "own" runner for the outcomes that wait for its running job to end. It may be too busy to answer."""
        self._process.send_signal(FLUSH_SIGNAL)

    async def stack(self) -> str:
        """Return the Python stacks of all threads of a "shared" runner; "" if it does not answer."""
        if self._stacks is None:
            return ""
        self._stacks.skip()  # one that came too late
        self._process.send_signal(FLUSH_SIGNAL)
        unread = seen = 0
        with anyio.move_on_after(STACK_S):
            while not unread or unread != seen:
                await anyio.sleep(_SETTLED_S)
                seen, unread = unread, self._stacks.unread
        return self._stacks.read()

    def kill(self) -> None:
        """Kill the process, and with it what it has started. Nothing once it was reaped."""
        self._process.kill()

    async def aclose(self) -> None:
        """Kill what still runs, wait until it is gone, and let go of link and claims. Not cut short by cancellation."""
        with anyio.CancelScope(shield=True):
            self.kill()
            await self.wait()
            await self.link.aclose()
        self._held.close()


async def _start(
    arguments: list[str],
    environment: dict[str, str],
    fds: dict[str, int],
    keeper: KeeperClient | None,
    directory: str | None,
) -> ProcessHandle:
    if keeper is None:
        return start_child(arguments, environment, fds, directory)
    return await keeper.fork_runner(arguments, environment, fds)


@contextmanager
def _closed_by_errors(sock: socket.socket) -> Iterator[None]:
    try:
        yield
    except BaseException:
        sock.close()
        raise


@contextmanager
def _closing_fd(fd: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(fd)
