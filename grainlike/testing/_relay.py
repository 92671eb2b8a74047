"""Relay between workers and a head, in a process of its own: links that a test holds, slows and lets go on.

    python _relay.py HEAD_PORT

Commands are lines on standard input, each answered by a line: `open NAME` gives the port at which NAME finds the head,
`hold NAME` and `release NAME` are about all its links, `slow NAME SECONDS` and `prompt NAME` about how long bytes are
under way on them. It exits when its input ends, and imports nothing of grainlike.
"""

import asyncio
import sys
from collections import defaultdict
from contextlib import suppress

_UNDER_WAY = 1024
"""Pieces of at most 64 KiB that a slow link has under way; then its sender waits, as for a full pipe."""


class _Links:
    """All links of one node: held or not, and with a delay or not."""

    def __init__(self) -> None:
        self.passing = asyncio.Event()
        self.passing.set()
        self.delay = 0.0
        self.prompt = asyncio.Event()
        self.prompt.set()

    def slow(self, delay: float) -> None:
        """Keep what comes from now on under way for `delay` seconds."""
        self.delay = delay
        self.prompt.clear()

    def end_delay(self) -> None:
        """Let all pass at once, with what is under way."""
        self.delay = 0.0
        self.prompt.set()

    async def arrival(self, at: float) -> None:
        """Wait until the time `at` of the loop, or until there is no delay any more, and while links are held."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(at):
                await self.prompt.wait()
        await self.passing.wait()


class _Relay:
    def __init__(self, head_port: int) -> None:
        self._head_port = head_port
        self._links: defaultdict[str, _Links] = defaultdict(_Links)

    async def obey(self, command: str, name: str, argument: str = "0") -> str:
        """Carry out a command; return its answer."""
        links = self._links[name]
        if command == "open":
            return await self._open(links)
        if command == "hold":
            links.passing.clear()
        elif command == "release":
            links.passing.set()
        elif command == "slow":
            links.slow(float(argument))
        else:
            links.end_delay()
        return "done"

    async def _open(self, links: _Links) -> str:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._relay(reader, writer, links)

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        return str(server.sockets[0].getsockname()[1])

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, links: _Links) -> None:
        try:
            from_head, to_head = await asyncio.open_connection("127.0.0.1", self._head_port)
        except OSError:  # the head has closed
            writer.close()
            return
        await asyncio.gather(_pump(reader, to_head, links), _pump(from_head, writer, links))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, links: _Links) -> None:
    """Pass bytes on, in order and without loss: as many seconds later as the links have, while they are not held."""
    under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_UNDER_WAY)
    taking = asyncio.create_task(_take(reader, under_way, links))
    try:
        while True:
            at, data = await under_way.get()
            await links.arrival(at)
            if not data:
                break
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        taking.cancel()
        writer.close()


async def _take(reader: asyncio.StreamReader, under_way: asyncio.Queue[tuple[float, bytes]], links: _Links) -> None:
    """Note when each piece that is sent will arrive. The last is empty: the end of the connection."""
    data = b"-"
    while data:
        try:
            data = await reader.read(65536)
        except ConnectionError:
            data = b""
        await under_way.put((asyncio.get_running_loop().time() + links.delay, data))


async def _main(head_port: int) -> None:
    relay = _Relay(head_port)
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := (await commands.readline()).decode().split():
        print(await relay.obey(*line), flush=True)  # noqa: T201 - this is a program


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1])))
