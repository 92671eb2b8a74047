"""What waits on a socket.

Answers: how frames travel between two processes, or two tasks of one (`Link`); where a process can be reached
(`Address`), who may come in (`Listener`), and how the others learn the address and the secret (`Access`).

Never looks into a message: what is said is `wire`'s, what follows from it is the scheduler's, and who must prove what
to whom is the executor's and the worker's. Neighbours: `wire` makes frames of bytes; `executor` and the worker daemon
own the links and react to what comes in.
"""

from grainlike.net._access import (
    Access,
    Role,
    find_access,
    publish_access,
    read_access,
    state_directory,
    withdraw_access,
    write_access,
)
from grainlike.net._address import Address, TcpAddress, UnixAddress, parse_address
from grainlike.net._alarm import Alarm
from grainlike.net._dial import adopt, connect
from grainlike.net._link import Link, OnFrames
from grainlike.net._listener import Handler, Listener, listen
from grainlike.net._loop import on_asyncio
from grainlike.net._memory import memory_pair
from grainlike.net._protocol import ProtocolLink
from grainlike.net._stream import StreamLink

__all__ = [
    "Access",
    "Address",
    "Alarm",
    "Handler",
    "Link",
    "Listener",
    "OnFrames",
    "ProtocolLink",
    "Role",
    "StreamLink",
    "TcpAddress",
    "UnixAddress",
    "adopt",
    "connect",
    "find_access",
    "listen",
    "memory_pair",
    "on_asyncio",
    "parse_address",
    "publish_access",
    "read_access",
    "state_directory",
    "withdraw_access",
    "write_access",
]
