"""Address of a dashboard: where it listens, and by which names browsers may call it."""

from __future__ import annotations

import ipaddress
import socket

__all__ = ["DEFAULT_ADDRESS", "hosts_of", "is_loopback", "read_address", "shown_host"]

DEFAULT_ADDRESS = ("127.0.0.1", 0)
"""Host and port where nothing else is said: this machine alone, at any free port."""

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def read_address(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`, of `[IPV6]:PORT`, or of a port alone, which is on 127.0.0.1.

    Raises:
        ValueError: it is none of these.

    Example:
        >>> read_address("127.0.0.1:8787")
        ('127.0.0.1', 8787)
        >>> read_address(":8787")
        ('127.0.0.1', 8787)
    """
    host, _, port = text.strip().rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not (port.isascii() and port.isdigit() and int(port) < 65536) or (":" in bare and bare == host):
        raise ValueError(f"{text!r} is no address of a dashboard: write HOST:PORT, as 127.0.0.1:8787")
    return bare or DEFAULT_ADDRESS[0], int(port)


def is_loopback(host: str) -> bool:
    """Return True if only this machine reaches the address."""
    return host == "localhost" or (_is_ip(host) and ipaddress.ip_address(host).is_loopback)


def hosts_of(host: str) -> frozenset[str]:
    """Return the names by which browsers may call a dashboard at `host`: others come from pages whose name was made
    to lead here (DNS rebinding).
    """
    if is_loopback(host):
        return _LOOPBACK | {host}
    own = {socket.gethostname().lower(), socket.getfqdn().lower()}
    return _LOOPBACK | own | {host.lower()} | set(_own_addresses(host))


def _own_addresses(host: str) -> list[str]:
    """Return the addresses of this machine, where it listens at all of them."""
    if not (_is_ip(host) and ipaddress.ip_address(host).is_unspecified):
        return []
    try:
        return [str(found[4][0]) for found in socket.getaddrinfo(socket.gethostname(), None)]
    except OSError:  # a machine whose own name is not resolved
        return []


def shown_host(host: str) -> str:
    """Return the host as links have it: in brackets for IPv6, and a name where it listens at all addresses."""
    if _is_ip(host) and ipaddress.ip_address(host).is_unspecified:
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
