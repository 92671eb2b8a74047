"""Introduction of a worker: the first message that it sends to a head."""

from __future__ import annotations

import os
import platform
import socket

from grainlike.errors import ResourceSpecError
from grainlike.net import process_id
from grainlike.payload import memory_id, serializer_versions
from grainlike.resources import Allocation
from grainlike.system import block_label, node_rank
from grainlike.wire import FROM_UNAUTHENTICATED, PROTOCOL, Hello, encode_frame
from grainlike_worker.daemon._probe import logical_in

__all__ = ["check_introduction", "introduction"]

_HELLO_GROWS = 768
"""Bytes by which an introduction may grow from one connection to the next: its memory tier, its directory, the address
of its data server, and received messages.
"""


def check_introduction(name: str, offer: Allocation) -> None:
    """Check that a head will read the introduction of a worker with this offer.

    Raises:
        ResourceSpecError: the offer is too long, so each new connection would break.
    """
    size = len(b"".join(map(bytes, encode_frame(introduction(name, offer, lasting=True)))))
    most = FROM_UNAUTHENTICATED.header - _HELLO_GROWS
    if size > most:
        raise ResourceSpecError(
            f"what worker {name} offers takes {size} bytes to say, and a head reads {most} of an introduction: the "
            f"ids of {len(offer.cores)} cores are too many one by one; offer ranges of ids, or start several workers, "
            "each with some of them"
        )


def introduction(
    name: str,
    offer: Allocation,
    memory_tier: str = "none",
    *,
    lasting: bool = False,
    left_s: float | None = None,
    here: tuple[str, tuple[int, int]] = ("", (-1, 0)),
) -> Hello:
    """Return the message; with `lasting`, of a worker that can reconnect and resume. It stops in `left_s`.
    `here`: its directory of values that stay, and how many bytes of them may be in shared memory, and on disk.
    """
    replicas, (store, scratch) = here
    return Hello(
        role="worker",
        protocol_low=PROTOCOL,
        protocol_high=PROTOCOL,
        python=platform.python_version(),
        serializers=serializer_versions(),
        name=name,
        incarnation=os.urandom(16).hex(),
        pid=os.getpid(),
        offer=str(offer),
        logical=list(logical_in(offer)),
        memory=memory_id(),
        memory_tier=memory_tier,
        process=process_id(),
        received=0 if lasting else -1,
        block=block_label(os.environ),
        node=node_rank(os.environ),
        host=socket.gethostname(),
        left_s=-1.0 if left_s is None else left_s,
        replicas=replicas,
        store=store,
        scratch=scratch,
    )
