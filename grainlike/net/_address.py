"""Addresses of processes: `unix:///PATH` or `tcp://HOST:PORT`."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path

import msgspec

__all__ = ["Address", "TcpAddress", "UnixAddress", "parse_address"]

_PATH_LIMIT = 107
"""Bytes of a Unix socket's path that the kernel has room for, without the closing zero."""

_HOST_AND_PORT = re.compile(r"(?:\[(?P<six>[^\]]*)\]|(?P<host>[^\[\]:/?#@\s]+)):(?P<port>[0-9]{1,5})")


class UnixAddress(msgspec.Struct, frozen=True):
    """A Unix socket by its absolute path."""

    path: Path

    def __str__(self) -> str:
        return f"unix://{self.path}"


class TcpAddress(msgspec.Struct, frozen=True):
    """A TCP port of a host; as something to listen on, port 0 means any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"tcp://[{self.host}]:{self.port}" if ":" in self.host else f"tcp://{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """True if this names the machine itself. A name other than `localhost` might mean anything, so it does not."""
        try:
            return ipaddress.ip_address(self.numeric).is_loopback
        except ValueError:
            return False

    @property
    def is_numeric(self) -> bool:
        """True if no resolver is needed to reach it."""
        try:
            ipaddress.ip_address(self.numeric)
        except ValueError:
            return False
        return True

    @property
    def is_wildcard(self) -> bool:
        """True if this is every interface of a machine: an address to listen at, but not to connect to."""
        return self.is_numeric and ipaddress.ip_address(self.numeric).is_unspecified

    @property
    def numeric(self) -> str:
        """Host as an IP address, where it is one: `localhost` is 127.0.0.1, whatever a resolver would return."""
        return "127.0.0.1" if self.host == "localhost" else self.host


Address = UnixAddress | TcpAddress


def parse_address(text: str) -> Address:
    """Read an address; `str` of the result reads back.

    Raises `ValueError`, naming the bad part, for anything but `unix:///ABSOLUTE/PATH` (at most 107 bytes of path) and
    `tcp://HOST:PORT` (an IPv6 host in brackets).

    Example::

        parse_address("tcp://127.0.0.1:7777").port == 7777
    """
    scheme, separator, rest = text.partition("://")
    if separator and scheme == "unix":
        return UnixAddress(_socket_path(rest, text))
    if separator and scheme == "tcp":
        return _host_and_port(rest, text)
    raise ValueError(f"an address is tcp://HOST:PORT or unix:///PATH, not {_shown(text)}")


def _socket_path(path: str, text: str) -> Path:
    if not path.startswith("/") or path.endswith("/") or "\0" in path:
        raise ValueError(f"the address {_shown(text)} needs the absolute path of a socket: unix:///PATH")
    length = len(os.fsencode(path))
    if length > _PATH_LIMIT:
        raise ValueError(f"the path in {_shown(text)} has {length} bytes; a Unix socket's has at most {_PATH_LIMIT}")
    return Path(path)


def _host_and_port(rest: str, text: str) -> TcpAddress:
    match = _HOST_AND_PORT.fullmatch(rest)
    if match is None:
        raise ValueError(f"the address {_shown(text)} needs a host and a port: tcp://HOST:PORT")
    port = int(match["port"])
    if port > 65_535:
        raise ValueError(f"the port in {_shown(text)} is over 65535")
    if match["six"] is not None:
        try:
            return TcpAddress(str(ipaddress.IPv6Address(match["six"])), port)
        except ValueError:
            raise ValueError(f"the host in {_shown(text)} is not an IPv6 address") from None
    return TcpAddress(match["host"], port)


def _shown(text: str) -> str:
    """Return an address as an error shows it."""
    from grainlike._shown import shortened  # few addresses are wrong

    return repr(shortened(text))
