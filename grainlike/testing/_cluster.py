"""Cluster of a test: an executor, and worker daemons that are its nodes."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import anyio
from msgspec.structs import replace

from grainlike.client import HeadClient, RefusedQueryError, call
from grainlike.executor import Executor
from grainlike.net import accesses_for, find_access, make_credentials, parse_address, write_access
from grainlike.resources import Cores, Request
from grainlike.testing._nodes import FIRST_CORE, NodeProcess, Relay, checked_offer, checked_offers, with_own_cores
from grainlike.wire import LOST_S, AskJob, AskJobs, JobIs, JobRow, JobsAre

if TYPE_CHECKING:
    from types import TracebackType

    from grainlike.jobs import Event

__all__ = ["Cluster"]

_LISTEN = "tcp://127.0.0.1:0"
_MOST_NAMED = 20
"""Unfinished jobs that an error names."""
_LEAST_SILENCE_S = 0.5


class _ClusterExecutor(Executor):
    """Executor without an embedded worker, whose head loses a worker after `silence_s` seconds of silence."""

    _made_by = "Cluster(...)"

    def __init__(self, silence_s: float, **options: Any) -> None:
        super().__init__(local=None, **options)
        self._settings = replace(self._settings, silence_s=float(silence_s))


class Cluster:
    """Context manager: an executor whose jobs run on workers that are processes of this machine, one for each node.

    Workers are real ones, over TLS on the loopback interface. Their cores have ids of their own from 32768 on, beyond
    those of the machine, so they are given out and shown, and nothing is pinned to them. It works on asyncio and trio.

    `await Cluster(...)` opens one without a block, for as long as the event loop or until `aclose`. Calls that are
    awaited meanwhile run there, also where another executor is open round it.

    Args:
        nodes: what each node offers. They are called n1, n2, and so on.
        on_failure: as `Executor`'s.
        timeout: seconds that workers may take to connect or to end.
        silence: seconds after which the head loses a worker of which it hears nothing, as in a `partition`, from 0.5
            to 30. With few of them, a busy machine is taken for a cut network.

    Raises:
        TypeError: a node is no request, or `nodes` no sequence; or `silence` is no number.
        ValueError: there are no nodes; or `silence` is not from 0.5 to 30.
        RuntimeError: a worker has ended before it connected; the message has its log.
        TimeoutError: workers have not connected in time.

    Cancelled while it opens, it ends the workers that it has started, and leaves no files.

    Example::

        async with Cluster(nodes=[Cores(4), Cores(4) & GPUs(2)]) as cluster:
            assert await (train @ GPUs(1))("small") == 3
    """

    def __init__(
        self,
        nodes: Sequence[Request] = (Cores(2),),
        *,
        on_failure: Literal["fail_fast", "continue"] = "fail_fast",
        timeout: float = 60.0,
        silence: float = LOST_S,
    ) -> None:
        _check_silence(silence)
        self._offers = checked_offers(nodes)
        self._timeout = timeout
        self._nodes: dict[str, NodeProcess] = {}
        self._relay: Relay | None = None
        self._started = 0
        self._first_core = FIRST_CORE
        self._directory = Path(tempfile.mkdtemp(prefix="grainlike-testing-"))
        self._write_access_files()
        head = self._directory / "head.json"
        self.executor: Executor = _ClusterExecutor(silence, listen=_LISTEN, access=head, on_failure=on_failure)
        """The executor: `explain`, `history`, `report` and all else are asked of it."""

    def _write_access_files(self) -> None:
        """Write access files of its own, so that it is not the current head of the user who runs the tests."""
        cluster = secrets.token_hex(6)
        for access in accesses_for(cluster, (parse_address(_LISTEN),), make_credentials(cluster, days=1)):
            write_access(access, self._directory / f"{access.role}.json")

    async def __aenter__(self) -> Self:
        await self._open_executor(self.executor.__aenter__())
        try:
            return await self._open()
        except BaseException:
            await self._close(partial(self.executor.__aexit__, None, None, None))
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._close(partial(self.executor.__aexit__, kind, error, traceback))

    def __await__(self) -> Generator[Any, Any, Self]:
        return self._stand().__await__()

    async def _stand(self) -> Self:
        await self._open_executor(self.executor)
        try:
            return await self._open()
        except BaseException:
            await self.aclose()
            raise

    async def _open_executor(self, opens: Awaitable[object]) -> None:
        """Open the executor. If that fails, or is cancelled, no access files are left."""
        try:
            await opens
        except BaseException:
            if not self.executor.is_open:  # of one that is open already, the files are in use
                self._remove_files()
            raise

    async def _open(self) -> Self:
        """Start the workers."""
        self._events = self.executor.events()
        self._relay = await Relay.start(int(str(self.executor.address).rpartition(":")[2]))
        with anyio.fail_after(self._timeout):
            for offer in self._offers:
                await self._start(offer)
            await self._connected()
        return self

    async def aclose(self) -> None:
        """Close the executor, and wait until all workers have ended. What still runs is cancelled.

        Cancelling it does not keep it from ending the workers.

        Example::

            cluster = await Cluster()
            await cluster.aclose()
        """
        await self._close(self.executor.aclose)

    async def _close(self, close_executor: Callable[[], Awaitable[None]]) -> None:
        with anyio.CancelScope(shield=True):
            try:
                if self._relay is not None:
                    for name in self._nodes:
                        await self._relay.ask("release", name)
                        await self._relay.ask("prompt", name)
                await close_executor()
            finally:
                await self._end_nodes()

    async def _end_nodes(self) -> None:
        """End all workers, also one that has lost the head in a partition: the head could not tell that one to end."""
        for node in self._nodes.values():
            node.stop()
        for node in self._nodes.values():
            await node.end(within=self._timeout)
        if self._relay is not None:
            await self._relay.end()
        self._nodes.clear()
        self._remove_files()

    def _remove_files(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def client_json(self) -> Path:
        """Path of the access file for `connect`: programs that use it take this cluster for a head elsewhere.

        Example::

            async with connect(cluster.client_json) as ex:
                assert await (train @ GPUs(1))("small") == 3
        """
        return self._directory / "client.json"

    # --- nodes -------------------------------------------------------------------------------------------------------

    @property
    def workers(self) -> list[str]:
        """Names of the workers that have not been killed."""
        return list(self._nodes)

    async def start_worker(self, offer: Request = Cores(2)) -> str:  # noqa: B008 - a constant
        """Start one more worker, wait until it has connected, and return its name.

        Cancelled, it leaves the worker, which goes with the cluster.

        Raises:
            TypeError: `offer` is no request.
            RuntimeError: the worker has ended before it connected; the message has its log.
            TimeoutError: it has not connected in time.

        Example::

            name = await cluster.start_worker(Cores(8))
        """
        name = await self._start(checked_offer(offer))
        with anyio.fail_after(self._timeout):
            await self._connected()
        return name

    async def kill_worker(self, name: str | None = None) -> str:
        """Kill a worker with all its processes (SIGKILL), wait until the head has lost it, and return its name.

        Its jobs run elsewhere, as after the failure of a node: while others have room, or when one is started.

        Args:
            name: name of the worker; by default the last that was started.

        Raises:
            KeyError: there is no worker of that name, or none at all.

        Cancelled, it does not wait; the worker is killed all the same.

        Example::

            r_ = start((train @ Cores(1))("small"))
            await cluster.kill_worker("n1")
            assert await r_ == 3
        """
        if name is None:
            name = next(reversed(self._nodes), "")
        self._check_known(name)
        node = self._nodes.pop(name)
        node.kill()
        await self._event("worker_left", name)
        await node.end(within=self._timeout)
        return name

    @asynccontextmanager
    async def partition(self, name: str) -> AsyncIterator[None]:
        """Let no byte pass between a worker and the head while the block lasts, as where a network is cut.

        What they send waits, and passes after the block, in order and without loss. The head gives a silent worker no
        new jobs after half of `silence`, and loses it after the whole: then its jobs run elsewhere. A worker that was
        lost connects again after the block, under its name. Large values pass no more either: between these workers
        all of them go by way of the head. Other workers notice nothing.

        However the block ends, by cancellation too, the link is released.

        Raises:
            KeyError: there is no worker of that name.

        Example::

            async with cluster.partition("n1"):
                assert await (train @ GPUs(1))("small") == 3  # n2 has the devices
        """
        self._check_known(name)
        await self._links.ask("hold", name)
        try:
            yield
        finally:
            await self._links.ask("release", name)

    @asynccontextmanager
    async def slow(self, name: str, seconds: float) -> AsyncIterator[None]:
        """Let all that a worker and the head send each other arrive `seconds` later while the block lasts.

        The delay is that of a long way, not of a narrow one: all that is sent meanwhile is under way at the same time,
        and comes in order and without loss. A job on this worker is seen to take `2 * seconds` more. After the block
        all that is still under way arrives at once. With more than half of `silence` the head gives the worker no jobs
        for as long as nothing comes. Large values that pass from worker to worker do not use this link.

        However the block ends, by cancellation too, the delay ends.

        Args:
            name: name of the worker.
            seconds: time on the way, in seconds, in each direction.

        Raises:
            KeyError: there is no worker of that name.
            ValueError: `seconds` is negative, or no number.

        Example::

            async with cluster.slow("n1", 0.2):
                assert await (train @ GPUs(1))("small") == 3
        """
        self._check_known(name)
        if not isinstance(seconds, int | float) or not 0 <= seconds < float("inf"):
            raise ValueError(f"a delay is 0 seconds or more, not {seconds!r}")
        await self._links.ask("slow", name, float(seconds))
        try:
            yield
        finally:
            await self._links.ask("prompt", name)

    def _check_known(self, name: str) -> None:
        """Raise `KeyError` if there is no worker of that name, `RuntimeError` if the cluster is not open."""
        self._links  # noqa: B018 - raises
        if name not in self._nodes:
            raise KeyError(f"no worker {name!r}; there are {', '.join(self._nodes) or 'none'}")

    async def _start(self, offer: Request) -> str:
        self._started += 1
        name = f"n{self._started}"
        text, self._first_core = with_own_cores(offer, self._first_core)
        access = self._directory / f"{name}.json"
        port = await self._links.ask("open", name)
        address = parse_address(f"tcp://127.0.0.1:{port}")
        write_access(replace(find_access(self._directory / "worker.json"), addresses=(address,)), access)
        self._nodes[name] = await NodeProcess.start(name, text, access)
        return name

    @property
    def _links(self) -> Relay:
        if self._relay is None:
            raise RuntimeError("the cluster is not open: write `await Cluster(...)` or `async with Cluster(...)`")
        return self._relay

    async def _connected(self) -> None:
        """Wait until all nodes have connected, or one has ended."""
        ended: list[NodeProcess] = []

        async def watch(node: NodeProcess) -> None:
            await node.wait()
            ended.append(node)
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for node in self._nodes.values():
                tasks.start_soon(watch, node)
            await self.executor.wait_for_workers(len(self._nodes))
            tasks.cancel_scope.cancel()
        if ended:
            raise RuntimeError(f"worker {ended[0].name} ended before it had connected:\n{ended[0].log()}")

    async def _event(self, kind: str, worker: str) -> Event:
        async for event in self._events:
            if event.kind == kind and event.worker == worker:
                return event
        raise RuntimeError(f"the executor was closed before {worker} had left")

    # --- jobs --------------------------------------------------------------------------------------------------------

    async def assert_all_finished(self) -> None:
        """Assert that every job that was submitted has ended, well or not: none waits, and none runs.

        Cancelling it changes nothing.

        Raises:
            AssertionError: some have not ended; the message names them, and says what each waits for.

        Example::

            await cluster.assert_all_finished()
            assert cluster.executor.report().failed == 0
        """
        async with call(self._directory / "client.json") as client:
            left = await client.ask(AskJobs(0, _MOST_NAMED), JobsAre)
            lines = [await _told(client, job) for job in left.jobs]
        if left.total:
            more = [f"  and {left.total - len(lines)} more"] if left.total > len(lines) else []
            raise AssertionError("\n".join([f"{left.total} jobs have not ended:", *lines, *more]))


async def _told(client: HeadClient, job: JobRow) -> str:
    """Return the name of a job, and where it stands."""
    try:
        words = (await client.ask(AskJob(0, job.job), JobIs)).words
    except RefusedQueryError:
        words = f"Job {job.job} has ended meanwhile."
    return f"  {job.name}: {words}".replace("\n", "\n    ")


def _check_silence(seconds: object) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"silence is a number of seconds, not {type(seconds).__name__}")
    if not _LEAST_SILENCE_S <= seconds <= LOST_S:
        raise ValueError(f"silence is {_LEAST_SILENCE_S:g} to {LOST_S:g} seconds, not {seconds!r}")
