"""Dialling an address whose listener goes away at the worst moment."""

import socket
import struct

import pytest

from grainlike.errors import HeadLostError
from grainlike.net import TcpAddress, _steps, connect

pytestmark = pytest.mark.anyio


async def test_a_listener_that_resets_as_soon_as_it_is_reached_is_a_lost_head(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = TcpAddress("127.0.0.1", listener.getsockname()[1])

        def reset(sock):
            accepted, _ = listener.accept()
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            accepted.close()

        monkeypatch.setattr(_steps, "keep_watch", reset)
        with pytest.raises(HeadLostError, match=f"{address} hung up as soon as it was reached"):
            await connect(address)
