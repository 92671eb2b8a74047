"""Conversion of an access file to a link, and of a listener's address to those at which it can be reached."""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

from grainlike.errors import AuthenticationError
from grainlike.net._access import Access
from grainlike.net._address import Address, TcpAddress
from grainlike.net._dial import connect
from grainlike.net._link import Link
from grainlike.net._steps import one_of, ways

__all__ = ["addresses_of", "dial"]

_ELSEWHERE = ("192.0.2.1", 9)
"""Address that is no host's, to ask the kernel which of ours it would send from. Nothing is sent."""

_GET_ADDRESS = 0x8915
"""Linux' SIOCGIFADDR: the IPv4 address of an interface."""


async def dial(access: Access, *, insecure: bool = False, timeout: float = 10.0) -> Link:
    """Connect to the head that `access` is for, at the first of its addresses where it answers.

    The link is trusted: over TLS the head has proved who it is, and a Unix socket is one of our own processes.
    `insecure` allows, on loopback, a head that listens without TLS. Where there is a certificate it changes nothing.

    Raises:
        AuthenticationError: another head answered, or refused us; or it has no TLS, and `insecure` is not
            set.
        HeadLostError: the access file has no address yet, or none answers. `timeout` bounds each address.

    Example::

        link = await dial(find_access())
        await link.run(print)
    """
    failures: list[OSError] = []
    for address, tls in ways(access, insecure=insecure):
        try:
            link = await connect(address, timeout, tls=tls)
        except (AuthenticationError, ConnectionError) as error:
            failures.append(error)
        else:
            link.trust()
            return link
    raise one_of(failures)


def addresses_of(address: Address) -> tuple[Address, ...]:
    """Return the addresses at which a listener at `address` is reached: itself, or, for all interfaces, the likely
    ones.

    Peers try them in turn. An address that is another host for them is no danger: a listener there has no certificate
    of the cluster's head.
    """
    if not isinstance(address, TcpAddress) or not address.is_wildcard:
        return (address,)
    return tuple(TcpAddress(host, address.port) for host in dict.fromkeys(_own_hosts()))


def _own_hosts() -> Iterator[str]:
    """The addresses of this machine's interfaces, the one that others most likely see first. No resolver is asked."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        with suppress(OSError):
            probe.connect(_ELSEWHERE)
            yield probe.getsockname()[0]
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # one without an IPv4 address
                told = fcntl.ioctl(probe, _GET_ADDRESS, struct.pack("256s", name.encode()))
                host = socket.inet_ntoa(told[20:24])
                if not host.startswith("127."):
                    yield host
    yield "127.0.0.1"
