"""Updates of a live view to a client, as often as it asked for and as the head has time for."""

from __future__ import annotations

import time

import anyio

from grainlike.head import LiveView
from grainlike.head.server._client import ClientConnection
from grainlike.wire import AskLive

__all__ = ["send_updates"]

_SHARE = 0.02
"""Largest share of the head's time that goes into the updates of one viewer."""

_QUIET_S = 0.5
"""Longest pause while nothing changes: a head that does nothing is looked at twice a second."""


async def send_updates(
    connection: ClientConnection, question: AskLive, view: LiveView, scope: anyio.CancelScope
) -> None:
    """Send updates over the client's present link until it has had enough, is gone, or its link is: `scope` is
    cancelled then.

    The next update is made when the one before has left, so a viewer that reads slowly gets fewer of them.
    """
    link = connection.link
    pause, longest = question.every_s, max(question.every_s, _QUIET_S)
    with scope:
        while True:
            begun = time.perf_counter()
            messages = view.updates(question.ask)
            for message in messages:
                link.post(message)
            took = time.perf_counter() - begun
            await link.drain()
            pause = question.every_s if messages else min(2 * pause, longest)
            await anyio.sleep(max(pause, took / _SHARE))
    if connection.listening.get(question.ask) is scope:
        del connection.listening[question.ask]
