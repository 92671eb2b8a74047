"""Ports of this machine for programs that have to be told one, as no test can say 0 in their place."""

import random
import socket
from collections.abc import Sequence
from contextlib import ExitStack, suppress

__all__ = ["free_port", "free_ports"]

_FIRST, _LAST = 10_000, 32_000
"""Below those that systems give to whoever asks for any, or dials: one of these would be taken again soon."""

_DICE = random.SystemRandom()  # programs beside this one must not draw the same


def free_port() -> int:
    """Return a port that nobody listens at."""
    (port,) = free_ports(1)
    return port


def free_ports(count: int) -> Sequence[int]:
    """Return so many different ones."""
    found: list[int] = []
    with ExitStack() as stack:
        while len(found) < count:
            port, probe = _DICE.randrange(_FIRST, _LAST), stack.enter_context(socket.socket())
            with suppress(OSError):
                probe.bind(("", port))
                found.append(port)
    return found
