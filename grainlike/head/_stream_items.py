"""Items of streams that come from workers, and the credit that goes back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from grainlike.engine import inlet_of
from grainlike.graph import StreamNode
from grainlike.head._peers import Peer
from grainlike.jobs import Job
from grainlike.payload import Payload
from grainlike.wire import Buffer, Credit, Items, unpack_parcels

__all__ = ["take_items"]


def take_items(peer: Peer, job: Job | None, message: Items, buffers: Sequence[Buffer]) -> bool:
    """Hand items to the stream of `job`, if they come from where it runs now. True for the first ones of a job."""
    node = job.node if job is not None else None
    if job is None or not isinstance(node, StreamNode):
        return False
    placement = job.placement
    if placement is None or (placement.worker, placement.attempt) != (peer.name, message.attempt):
        return False
    inlet = inlet_of(node)
    first = not inlet.begun
    if first:
        placement.streamed = True
        inlet.begin(partial(_credit, peer, job.job, placement.attempt))
    for data, outband in unpack_parcels(message.data, message.counts, buffers):
        payload = Payload(data, tuple(outband))
        inlet.put(payload, payload.nbytes)
    return first


def _credit(peer: Peer, job: int, attempt: int, items: int, size: int) -> None:
    peer.post(Credit(job, attempt, items, size))
