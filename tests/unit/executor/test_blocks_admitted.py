"""Workers of blocks at a head: they are let in, anew and after a break, only while their block lives."""

import anyio
import pytest
from limits import LIMIT_S
from msgspec.structs import replace

from grainlike.errors import BlockEndedError
from grainlike.head._head import Head
from grainlike.head.server._accept import Acceptor, ConnectionHandler
from grainlike.head.server._clients import ClientRegistry
from grainlike.net import ClosedLink
from grainlike.resources import Cores, offer_of
from grainlike.wire import ConnectingHandshake, Frame, Hello, Message, Refused, Welcome
from grainlike_worker.daemon._introduction import introduction

pytestmark = pytest.mark.anyio


class Deaf:
    """Hears of no outcomes: there is no graph."""


class Heard(ClosedLink):
    """Remembers what the head has said."""

    role = "worker"

    def __init__(self) -> None:
        super().__init__("n1", "here")
        self.said: list[Message] = []

    def post(self, message: Message, buffers=()) -> None:
        self.said.append(message)


class Door:
    """A head that listens, with a hook that remembers for which blocks it was asked."""

    def __init__(self, ended: dict[str, str]) -> None:
        self.asked: list[str] = []
        self.head = Head(Deaf(), closed=False, alarm=lambda at: None)
        clients = ClientRegistry(self.head, "c1", bool, bool, lambda: None)

        def admit_block(label: str) -> str | None:
            self.asked.append(label)
            return ended.get(label)

        self._acceptor = Acceptor(self.head, clients, "c1", [], bool, bool, admit_block)

    async def knock(self, hello: Hello) -> Message:
        """Return the first answer to an introduction."""
        link = Heard()
        with anyio.fail_after(LIMIT_S):
            async with anyio.create_task_group() as tasks:
                ConnectionHandler(self._acceptor, link, tasks).hear([Frame(hello)])
                tasks.cancel_scope.cancel()
        return link.said[0]


def of_block(label: str) -> Hello:
    offer = offer_of(Cores([0]), own_cores=(0,))
    return replace(introduction("n1", offer, lasting=True), block=label)


async def test_a_worker_of_a_block_that_has_ended_is_refused_with_the_words_of_the_hook() -> None:
    door = Door({"cpu-1": "block cpu-1 has ended"})
    refused = await door.knock(of_block("cpu-1"))
    assert refused == Refused("BlockEndedError", "block cpu-1 has ended")
    with pytest.raises(BlockEndedError, match="block cpu-1 has ended"):
        ConnectingHandshake(of_block("cpu-1")).receive(refused)
    assert isinstance(await door.knock(of_block("cpu-2")), Welcome)
    assert [peer.hello.block for peer in door.head.peers.values()] == ["cpu-2"]


async def test_a_worker_of_no_block_is_let_in_unasked() -> None:
    door = Door({"": "nobody"})
    assert isinstance(await door.knock(of_block("")), Welcome)
    assert door.asked == []


async def test_a_worker_whose_block_ended_while_its_link_was_broken_is_refused_and_given_up() -> None:
    ended: dict[str, str] = {}
    door = Door(ended)
    hello = of_block("cpu-1")
    assert isinstance(await door.knock(hello), Welcome)
    ended["cpu-1"] = "block cpu-1 has ended"
    assert await door.knock(replace(hello, resumes=True)) == Refused("BlockEndedError", "block cpu-1 has ended")
    assert not door.head.peers
