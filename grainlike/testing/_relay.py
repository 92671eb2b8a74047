"""Relay between workers and a head, in a process of its own: links that a test holds and lets go on.

    python _relay.py HEAD_PORT

Commands are lines on standard input, each answered by a line: `open NAME` gives the port at which NAME finds the head,
`hold NAME` and `release NAME` are about all its links. It exits when its input ends, and imports nothing of grainlike.
"""

import asyncio
import sys
from collections import defaultdict


class _Relay:
    def __init__(self, head_port: int) -> None:
        self._head_port = head_port
        self._passing: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def obey(self, command: str, name: str) -> str:
        """Carry out a command; return its answer."""
        passing = self._passing[name]
        if command == "hold":
            passing.clear()
            return "held"
        passing.set()
        if command == "release":
            return "released"

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._relay(reader, writer, passing)

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        return str(server.sockets[0].getsockname()[1])

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passing: asyncio.Event) -> None:
        try:
            from_head, to_head = await asyncio.open_connection("127.0.0.1", self._head_port)
        except OSError:  # the head has closed
            writer.close()
            return
        await asyncio.gather(_pump(reader, to_head, passing), _pump(from_head, writer, passing))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passing: asyncio.Event) -> None:
    """Pass bytes on, in order and without loss, while the link is not held."""
    try:
        while data := await reader.read(65536):
            await passing.wait()
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def _main(head_port: int) -> None:
    relay = _Relay(head_port)
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := (await commands.readline()).decode().split():
        print(await relay.obey(*line), flush=True)  # noqa: T201 - this is a program


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1])))
