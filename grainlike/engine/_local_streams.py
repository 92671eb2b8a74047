"""Streams without resources: generators that run in the caller's process, a window ahead of their readers."""

from __future__ import annotations

import anyio

from grainlike.engine._stream_buffer import inlet_of
from grainlike.graph import Node, State, StreamNode
from grainlike.wire import Window

__all__ = ["stream_here"]


async def stream_here(node: Node) -> None:
    """Drive the generator of `node`, a stream's, until it ends or raises; then its `finally` is done.

    All its steps are taken in one task, so it may hold task groups and cancel scopes open across a `yield`.
    """
    assert isinstance(node, StreamNode)
    node.state = State.RUNNING
    args, kwargs = node.arguments()
    inlet, window = inlet_of(node), Window()
    room = anyio.Event()

    def credit(items: int, size: int) -> None:
        window.credited(items, size)
        room.set()

    generator = node.function.callable(*args, **kwargs)
    try:
        while True:
            while not window.open:
                room = anyio.Event()
                await room.wait()
            try:
                item = await anext(generator)
            except StopAsyncIteration:
                return
            if not inlet.begun:
                inlet.begin(credit)
            window.sent(0)
            inlet.put(item, 0)
            del item
    finally:
        # On trio, each `await` of its `finally` would be cancelled again.
        with anyio.CancelScope(shield=True):
            await generator.aclose()
