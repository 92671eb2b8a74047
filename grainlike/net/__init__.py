"""Sockets and connections: everything that waits on a socket.

Answers: how frames travel between two processes, or two tasks of one (`Link`), and how a session outlives a link that
breaks (`ResumableSession`; `ReconnectingLink` at the end that connects); where a process can be reached (`Address`),
how connections are accepted (`Listener`), how the others find that address and prove their role (`Access`,
`HeadLocator`), how links are encrypted and authenticated (`Tls`), and how a running job
reaches its worker (`Uplink`).

Never looks into a message: the messages are `wire`'s, their consequences are the scheduler's, and what each role may
do is the executor's. Neighbours: `wire` makes frames of bytes; `executor` and the worker daemon own the links and
react to what comes in.
"""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.net._accept_errors import AcceptErrors
    from grainlike.net._access import (
        Access,
        accesses_for,
        current_folder,
        find_access,
        forget_journal,
        has_journal_note,
        hold_lock,
        how_to_go_on,
        is_left_behind,
        is_locked,
        journal_left_behind,
        left_behind,
        move_access,
        note_journal,
        publish_access,
        read_access,
        remove_left_behind,
        withdraw_access,
        write_access,
    )
    from grainlike.net._address import Address, TcpAddress, UnixAddress, parse_address
    from grainlike.net._blocking import BlockingConnection, dial_blocking
    from grainlike.net._byte_link import ByteLink, ClosedLink
    from grainlike.net._certificates import (
        ROLES,
        VALID_DAYS,
        Credentials,
        Role,
        can_serve,
        holds_from_to,
        make_credentials,
        name_of,
    )
    from grainlike.net._dial import adopt, connect, shake_hands
    from grainlike.net._guard import keep_watch, make_private_directory, state_directory
    from grainlike.net._link import Link, OnFrames
    from grainlike.net._listener import Handler, Listener, RateLimitedLog, listen, listen_tcp
    from grainlike.net._locator import HeadLocator
    from grainlike.net._memory import memory_pair
    from grainlike.net._process import is_elsewhere, is_gone, is_of_this_machine, process_id, runs_here, software
    from grainlike.net._protocol import ProtocolLink
    from grainlike.net._reach import addresses_of, dial
    from grainlike.net._reconnecting import RETURN_S, ReconnectingLink, Redial, waits
    from grainlike.net._resumable_session import ResumableSession
    from grainlike.net._stream import StreamLink
    from grainlike.net._tls import Tls, TlsSession, client_tls, role_of, server_tls, tls_context
    from grainlike.net._uplink import NestedSubmitter, Uplink

__all__ = [
    "RETURN_S",
    "ROLES",
    "VALID_DAYS",
    "AcceptErrors",
    "Access",
    "Address",
    "BlockingConnection",
    "ByteLink",
    "ClosedLink",
    "Credentials",
    "Handler",
    "HeadLocator",
    "Link",
    "Listener",
    "NestedSubmitter",
    "OnFrames",
    "ProtocolLink",
    "RateLimitedLog",
    "ReconnectingLink",
    "Redial",
    "ResumableSession",
    "Role",
    "StreamLink",
    "TcpAddress",
    "Tls",
    "TlsSession",
    "UnixAddress",
    "Uplink",
    "accesses_for",
    "addresses_of",
    "adopt",
    "can_serve",
    "client_tls",
    "connect",
    "current_folder",
    "dial",
    "dial_blocking",
    "find_access",
    "forget_journal",
    "has_journal_note",
    "hold_lock",
    "holds_from_to",
    "how_to_go_on",
    "is_elsewhere",
    "is_gone",
    "is_left_behind",
    "is_locked",
    "is_of_this_machine",
    "journal_left_behind",
    "keep_watch",
    "left_behind",
    "listen",
    "listen_tcp",
    "make_credentials",
    "make_private_directory",
    "memory_pair",
    "move_access",
    "name_of",
    "note_journal",
    "parse_address",
    "process_id",
    "publish_access",
    "read_access",
    "remove_left_behind",
    "role_of",
    "runs_here",
    "server_tls",
    "shake_hands",
    "software",
    "state_directory",
    "tls_context",
    "waits",
    "withdraw_access",
    "write_access",
]

if not TYPE_CHECKING:  # else any name would be there
    # A runner needs one of these names, and a program without workers elsewhere three.
    __getattr__ = later(
        __name__,
        {
            "AcceptErrors": "_accept_errors",
            "Access": "_access",
            "Address": "_address",
            "BlockingConnection": "_blocking",
            "ByteLink": "_byte_link",
            "Credentials": "_certificates",
            "Handler": "_listener",
            "ReconnectingLink": "_reconnecting",
            "Link": "_link",
            "Listener": "_listener",
            "ClosedLink": "_byte_link",
            "NestedSubmitter": "_uplink",
            "OnFrames": "_link",
            "ProtocolLink": "_protocol",
            "RateLimitedLog": "_listener",
            "RETURN_S": "_reconnecting",
            "ROLES": "_certificates",
            "Redial": "_reconnecting",
            "Role": "_certificates",
            "ResumableSession": "_resumable_session",
            "StreamLink": "_stream",
            "TcpAddress": "_address",
            "Tls": "_tls",
            "TlsSession": "_tls",
            "UnixAddress": "_address",
            "Uplink": "_uplink",
            "VALID_DAYS": "_certificates",
            "HeadLocator": "_locator",
            "accesses_for": "_access",
            "addresses_of": "_reach",
            "adopt": "_dial",
            "can_serve": "_certificates",
            "client_tls": "_tls",
            "connect": "_dial",
            "current_folder": "_access",
            "dial": "_reach",
            "dial_blocking": "_blocking",
            "find_access": "_access",
            "forget_journal": "_access",
            "has_journal_note": "_access",
            "how_to_go_on": "_access",
            "is_locked": "_access",
            "journal_left_behind": "_access",
            "note_journal": "_access",
            "hold_lock": "_access",
            "holds_from_to": "_certificates",
            "is_elsewhere": "_process",
            "is_of_this_machine": "_process",
            "is_gone": "_process",
            "is_left_behind": "_access",
            "left_behind": "_access",
            "keep_watch": "_guard",
            "name_of": "_certificates",
            "role_of": "_tls",
            "tls_context": "_tls",
            "listen": "_listener",
            "listen_tcp": "_listener",
            "make_credentials": "_certificates",
            "make_private_directory": "_guard",
            "memory_pair": "_memory",
            "move_access": "_access",
            "parse_address": "_address",
            "process_id": "_process",
            "runs_here": "_process",
            "software": "_process",
            "publish_access": "_access",
            "read_access": "_access",
            "remove_left_behind": "_access",
            "server_tls": "_tls",
            "shake_hands": "_dial",
            "state_directory": "_guard",
            "waits": "_reconnecting",
            "withdraw_access": "_access",
            "write_access": "_access",
        },
    )
