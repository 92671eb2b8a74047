"""Nodes of a test's cluster: processes of worker daemons, and the relay of their links."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeVar

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from grainlike.resources import Request

__all__ = ["FIRST_CORE", "NodeProcess", "Relay", "checked_offer", "checked_offers", "with_own_cores"]

StreamT = TypeVar("StreamT")

FIRST_CORE = 32768
"""First id of a core that no machine has: it is given out and shown, and nothing is pinned to it."""

_MASK = "CUDA_VISIBLE_DEVICES"


def checked_offers(nodes: Sequence[Request]) -> list[Request]:
    """Return the offers of the nodes of a cluster.

    Raises:
        TypeError: they are no sequence of requests.
        ValueError: there are none.
    """
    if not isinstance(nodes, Sequence) or isinstance(nodes, str):
        raise TypeError(f"nodes are what each of them offers, as [Cores(4), Cores(4)], not {nodes!r}")
    if not nodes:
        raise ValueError("a cluster has one node or more")
    return [checked_offer(node) for node in nodes]


def checked_offer(offer: object) -> Request:
    """Return the offer of a node. Raises `TypeError` if it is no request."""
    if not isinstance(offer, Request):
        raise TypeError(f"a node is what it offers, as Cores(4) & GPUs(1), not {offer!r}")
    return offer


class NodeProcess:
    """A worker daemon in a process of its own; what it logs is in a file."""

    def __init__(self, name: str, process: Process, log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    @classmethod
    async def start(cls, name: str, offer: str, access: Path) -> Self:
        """Start a worker of the head that an access file names; its log is beside that. It has no data server: all
        that it sends and gets passes its link, which a test may cut. Its GPUs are not those of the process that runs
        the tests, so a mask of that one's hides none.
        """
        command = [sys.executable, "-m", "grainlike_worker", "--head", str(access), "--data", "off"]
        path = access.with_suffix(".log")
        with path.open("wb") as log:
            process = await anyio.open_process(
                [*command, "--name", name, "--resources", offer],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={name: value for name, value in os.environ.items() if name != _MASK},
            )
        return cls(name, process, path)

    def log(self) -> str:
        """Return what it has logged so far."""
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        """Kill the daemon; its processes end with it."""
        if self._process.returncode is None:
            self._process.kill()

    def stop(self) -> None:
        """Ask it to end, as its batch system would; no-op if it has exited."""
        with suppress(ProcessLookupError):
            self._process.terminate()

    async def wait(self) -> None:
        """Wait until it has exited."""
        await self._process.wait()

    async def end(self, *, within: float) -> None:
        """Wait until it has exited, and kill it when that takes longer than `within` seconds."""
        with anyio.move_on_after(within):
            await self._process.wait()
        self.kill()
        await self._process.wait()


class Relay:
    """A process through which the links of all nodes pass."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._answers = BufferedByteReceiveStream(_piped(process.stdout))
        self._commands = _piped(process.stdin)
        self._turn = anyio.Lock()

    @classmethod
    async def start(cls, head_port: int) -> Self:
        """Start it for a head on this machine's loopback."""
        script = Path(__file__).with_name("_relay.py")
        return cls(await anyio.open_process([sys.executable, str(script), str(head_port)], stderr=None))

    async def ask(self, command: str, name: str, *arguments: float) -> str:
        """Give it a command, and return its answer. Cancelled, it waits for the answer first."""
        answer = b""
        with anyio.CancelScope(shield=True):
            async with self._turn:
                await self._commands.send(" ".join([command, name, *map(str, arguments)]).encode() + b"\n")
                answer = await self._answers.receive_until(b"\n", 100)
        return answer.decode()

    async def end(self) -> None:
        """End it with all links, and wait until it has exited."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.aclose()


def _piped(stream: StreamT | None) -> StreamT:
    if stream is None:
        raise RuntimeError("a relay was started without pipes")
    return stream


def with_own_cores(offer: Request, first: int) -> tuple[str, int]:
    """Return an offer as text in which a number of cores has become ids from `first` on, and the next free id.

    Example::

        >>> with_own_cores(Cores(2) & GPUs(1), 32768)
        ('cores=[32768,32769] gpus=1', 32770)
    """
    text = str(offer)
    asked = re.search(r"\bcores=(\d+)\b", text)
    if asked is None:
        return text, first
    following = first + int(asked[1])
    ids = ",".join(map(str, range(first, following)))
    return f"{text[: asked.start()]}cores=[{ids}]{text[asked.end() :]}", following
