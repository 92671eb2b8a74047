"""What waits on a socket.

Answers: how frames travel between two processes, or two tasks of one (`Link`); where a process can be reached
(`Address`), who may come in (`Listener`), how the others learn where that is and prove that they belong there
(`Access`), that nobody in between can listen or speak (`Tls`), and which way leads out of a running job (`Uplink`).

Never looks into a message: what is said is `wire`'s, what follows from it is the scheduler's, and what each role may do
is the executor's. Neighbours: `wire` makes frames of bytes; `executor` and the worker daemon own the links and react to
what comes in.
"""

from grainlike.net._access import (
    Access,
    accesses_for,
    find_access,
    left_behind,
    move_access,
    publish_access,
    read_access,
    remove_left_behind,
    state_directory,
    withdraw_access,
    write_access,
)
from grainlike.net._address import Address, TcpAddress, UnixAddress, parse_address
from grainlike.net._alarm import Alarm
from grainlike.net._byte_link import ByteLink
from grainlike.net._certificates import ROLES, VALID_DAYS, Credentials, Role, holds_from_to, make_credentials
from grainlike.net._dial import adopt, connect
from grainlike.net._head_lock import hold_lock
from grainlike.net._lasting import RETURN_S, LastingLink, Redial, waits
from grainlike.net._link import Link, OnFrames
from grainlike.net._listener import Handler, Listener, listen
from grainlike.net._loop import on_asyncio
from grainlike.net._lost import LostLink
from grainlike.net._memory import memory_pair
from grainlike.net._process import is_gone, process_id
from grainlike.net._protocol import ProtocolLink
from grainlike.net._reach import addresses_of, dial
from grainlike.net._session import Session
from grainlike.net._stream import StreamLink
from grainlike.net._tls import Tls, TlsSession, client_tls, server_tls, shake_hands
from grainlike.net._uplink import Nesting, Uplink
from grainlike.net._way import Way

__all__ = [
    "RETURN_S",
    "ROLES",
    "VALID_DAYS",
    "Access",
    "Address",
    "Alarm",
    "ByteLink",
    "Credentials",
    "Handler",
    "LastingLink",
    "Link",
    "Listener",
    "LostLink",
    "Nesting",
    "OnFrames",
    "ProtocolLink",
    "Redial",
    "Role",
    "Session",
    "StreamLink",
    "TcpAddress",
    "Tls",
    "TlsSession",
    "UnixAddress",
    "Uplink",
    "Way",
    "accesses_for",
    "addresses_of",
    "adopt",
    "client_tls",
    "connect",
    "dial",
    "find_access",
    "hold_lock",
    "holds_from_to",
    "is_gone",
    "left_behind",
    "listen",
    "make_credentials",
    "memory_pair",
    "move_access",
    "on_asyncio",
    "parse_address",
    "process_id",
    "publish_access",
    "read_access",
    "remove_left_behind",
    "server_tls",
    "shake_hands",
    "state_directory",
    "waits",
    "withdraw_access",
    "write_access",
]
