"""Copies of values that stay at workers, at a URL: two jobs for each, and the head's word of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from grainlike.calls import read_copy, write_copy
from grainlike.engine import copy_made, least_request, staying_values
from grainlike.errors import ResourceError
from grainlike.graph import Delayed, Node, RemoteValue, delayed, delayed_value, gather, node_of
from grainlike.maps._wait import wait

__all__ = ["copy_to_url"]

_write = delayed(write_copy)
_read = delayed(read_copy)


async def copy_to_url(nodes: Iterable[Node], url: str) -> None:
    """Write the values of nodes that have finished to files below a URL, read each back, and have it read from there
    whenever it is needed and lost.

    Raises:
        ValueLostError: the executor of one has closed.
        OSError, SerializationError: one cannot be written, or read back as it was written.
        ResourceError: the bytes that were read back do not stay at workers, so nothing could be made of them there.
    """
    requests = {value: least_request(node.request) for node in nodes for value in staying_values([node])}
    writes = {value: (_write @ request)(delayed_value(value), url) for value, request in requests.items()}
    copies = dict(zip(writes, await gather(writes.values()), strict=True))
    reads = {value: (_read @ requests[value])(copy) for value, copy in copies.items()}
    await wait(reads.values())
    for value, read_ in reads.items():
        copy_made(value, _read_back(read_, url))


def _read_back(read_: Delayed[Any], url: str) -> RemoteValue:
    node = node_of(read_)
    if node.error is not None:
        node.result()
    if not isinstance(node.reference, RemoteValue):
        raise ResourceError(f"a copy at {url} was read back by a worker that keeps no values, so none could use it")
    return node.reference
