"""A link that is made anew when it breaks: what is sent again, what is not, and when it is given up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest
from limits import LIMIT_S

from grainlike.errors import GrainlikeError, HeadLostError
from grainlike.net import (
    ByteLink,
    HeadLocator,
    Link,
    ReconnectingLink,
    ResumableSession,
    UnixAddress,
    accesses_for,
    connect,
    find_access,
    listen,
    move_access,
    process_id,
    publish_access,
    withdraw_access,
)
from grainlike.wire import (
    PROTOCOL,
    AskHead,
    Done,
    Frame,
    Goodbye,
    Hello,
    Message,
    Refused,
    Welcome,
    Withdraw,
)

pytestmark = pytest.mark.anyio

HELLO = Hello("client", PROTOCOL, PROTOCOL, "3.11", {}, "one", "token", 1, "", [], received=0)


def gone() -> str:
    """A process of this machine that has ended: our number, and another's start."""
    return process_id().rpartition("/")[0] + "/1"


class Head:
    """The far end, with a conversation of its own. `process` and `returns` are what its welcomes say."""

    def __init__(self, *, process: str, returns: bool) -> None:
        self.process, self.returns = process, returns
        self.refuses = False
        self.heard: list[Message] = []
        self.changed = anyio.Event()
        self.hellos: list[Hello] = []
        self.session: ResumableSession | None = None
        self.link: Link | None = None

    async def serve(self, link: Link) -> None:
        await link.run(lambda frames: self._hear(link, frames))

    def _hear(self, link: Link, frames: list[Frame]) -> None:
        if isinstance(frames[0].message, Hello):
            self._greet(link, frames.pop(0).message)
        if self.session is not None and link is self.link:
            self.heard += [frame.message for frame in self.session.hear(frames)]
        changed, self.changed = self.changed, anyio.Event()
        changed.set()

    def _greet(self, link: Link, hello: Message) -> None:
        assert isinstance(hello, Hello)
        assert isinstance(link, ByteLink)
        self.hellos.append(hello)
        self.link = link
        if self.refuses:
            link.post(Refused("HeadLostError", "you were given up"))
            return
        link.trust()
        link.post(Welcome("c", 5.0, [], "one", "", self.process, self.received, self.returns))
        if self.session is None:
            self.session = ResumableSession(link)
        else:
            assert self.session.go_on(link, hello.received)

    @property
    def received(self) -> int:
        return 0 if self.session is None else self.session.received

    async def until(self, condition: Callable[[], bool]) -> None:
        with anyio.fail_after(LIMIT_S):
            while not condition():
                await self.changed.wait()

    def cut(self) -> None:
        assert self.link is not None
        self.link.close("cut")


class Client:
    """The near end, run until it ends."""

    def __init__(self, link: ReconnectingLink) -> None:
        self.link = link
        self.heard: list[Message] = []
        self.failure: GrainlikeError | None = None
        self.joined = anyio.Event()
        self.ended = anyio.Event()
        link.returned = lambda: link.post(AskHead(2))

    async def run(self) -> None:
        self.link.post(HELLO)
        try:
            await self.link.run(self._hear)
        except GrainlikeError as error:
            self.failure = error
        self.ended.set()

    def _hear(self, frames: list[Frame]) -> None:
        self.joined.set()
        self.heard += [frame.message for frame in frames]

    async def end(self) -> str | None:
        with anyio.fail_after(LIMIT_S):
            await self.ended.wait()
        return self.link.reason


async def dialled(address: UnixAddress) -> ByteLink:
    link = await connect(address)
    assert isinstance(link, ByteLink)
    link.trust()
    return link


@pytest.fixture
def meet(tmp_path: Path) -> Callable[..., object]:
    """`async with meet(head, patience_s, return_s) as client`: one that has been let in."""

    @asynccontextmanager
    async def meet(head: Head, patience_s: float = LIMIT_S, return_s: float = LIMIT_S) -> AsyncIterator[Client]:
        address = UnixAddress(tmp_path / "private" / "head.sock")
        with listen(address) as listener:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listener.serve, head.serve)
                client = Client(
                    ReconnectingLink(await dialled(address), lambda: dialled(address), patience_s, return_s)
                )
                tasks.start_soon(client.run)
                await client.joined.wait()
                yield client
                tasks.cancel_scope.cancel()

    return meet


def withdrawals(messages: list[Message]) -> list[int]:
    return [child for message in messages if isinstance(message, Withdraw) for child in message.children]


async def test_what_is_of_jobs_is_said_again_and_what_is_asked_is_not(meet) -> None:
    head = Head(process=process_id(), returns=False)
    async with meet(head) as client:
        client.link.post(Withdraw(0, 0, [1]))
        await head.until(lambda: withdrawals(head.heard) == [1])
        address, client.link.peer = client.link.peer, "where it was"
        head.cut()
        client.link.post(Withdraw(0, 0, [2]))  # over the dead link
        client.link.post(AskHead(1))
        head.session.post(Withdraw(0, 0, [3]))
        head.session.post(Done(1))
        await head.until(lambda: AskHead(2) in head.heard)
        assert head.heard == [Withdraw(0, 0, [1]), Withdraw(0, 0, [2]), AskHead(2)]
        assert [(hello.resumes, hello.received) for hello in head.hellos] == [(False, 0), (True, 0)]
        assert client.link.peer == address
        head.session.post(Goodbye("it has closed"))
        assert await client.end() == f"the head at {client.link.peer} said that it has closed"
        assert not client.link.in_vain
        assert withdrawals(client.heard) == [3]
        assert Done(1) not in client.heard


async def test_a_head_that_is_dead_is_given_up_at_once(meet) -> None:
    head = Head(process=gone(), returns=False)
    async with meet(head) as client:
        head.cut()
        assert await client.end() == f"the head at {client.link.peer} is dead"
        assert client.link.in_vain
        assert len(head.hellos) == 1


async def test_one_that_returns_is_waited_for_though_it_is_dead(meet, tmp_path) -> None:
    head = Head(process=gone(), returns=True)
    async with meet(head, patience_s=0.0) as client:
        head.process, head.returns = process_id(), False  # from now on
        head.cut()
        await head.until(lambda: AskHead(2) in head.heard)
        assert not client.ended.is_set()
        (tmp_path / "private" / "head.sock").unlink()
        head.cut()
        end = await client.end()  # for it says no more that it returns
        assert f"nothing was heard of the head at {client.link.peer} for 0 s" in end


async def test_the_patience_with_one_that_returns_has_an_end(meet, tmp_path) -> None:
    head = Head(process=gone(), returns=True)
    async with meet(head, return_s=0.0) as client:
        (tmp_path / "private" / "head.sock").unlink()
        head.cut()
        assert f"nothing was heard of the head at {client.link.peer} for 0 s" in await client.end()
        assert client.link.in_vain


async def test_who_stood_still_for_too_long_asks_the_head_and_does_not_call_it_absent(meet) -> None:
    head = Head(process=process_id(), returns=False)
    async with meet(head, patience_s=0.0) as client:
        head.refuses = True
        head.cut()
        await client.end()
        assert isinstance(client.failure, HeadLostError)
        assert not client.link.in_vain


async def test_a_head_that_was_silent_for_too_long_is_not_dialled(meet) -> None:
    head = Head(process=process_id(), returns=False)
    async with meet(head, patience_s=0.0) as client:
        client.link.give_up("silent")
        assert await client.end() == f"nothing was heard of the head at {client.link.peer} for 0 s"
        assert len(head.hellos) == 1


async def test_who_was_given_up_hears_so(meet) -> None:
    head = Head(process=process_id(), returns=True)
    async with meet(head) as client:
        head.refuses = True
        head.cut()
        await client.end()
        assert isinstance(client.failure, HeadLostError)


async def test_a_silence_ends_the_link_and_not_the_conversation(meet) -> None:
    head = Head(process=process_id(), returns=True)
    async with meet(head, patience_s=0.0) as client:
        client.link.give_up("silent")
        await head.until(lambda: AskHead(2) in head.heard)
        assert len(head.hellos) == 2
        client.link._patience_s = LIMIT_S  # it was heard just now: whoever doubts it is late
        client.link.give_up("silent")
        client.link.post(Withdraw(0, 0, [1]))
        await head.until(lambda: withdrawals(head.heard) == [1])
        assert len(head.hellos) == 2


async def test_bytes_of_a_value_that_is_still_coming_are_words_of_the_head(meet) -> None:
    head = Head(process=process_id(), returns=True)
    async with meet(head) as client:
        client.link._heard = heard = -1000.0  # that long ago
        head.session.post(Withdraw(0, 0, [1]), [bytes(3_000_000)])
        while withdrawals(client.heard) != [1] and not client.link.still_comes():
            await anyio.lowlevel.checkpoint()
        assert client.link._heard > heard


async def test_the_way_to_a_head_is_found_again_where_it_listens_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    first, second = (UnixAddress(tmp_path / name / "head.sock") for name in ("one", "two"))
    folder = publish_access(accesses_for("ours", (first,)))
    way = HeadLocator(lambda: find_access(str(first), "client"), insecure=False)
    with listen(first):
        await (await way.first()).aclose()
    with listen(second):
        move_access(folder, "ours", (second,))  # by the words that led to it, it is not to be found any more
        link = await way.again()
        await link.aclose()
        assert link.peer == str(second)
        withdraw_access("ours")
        publish_access(accesses_for("others", (first,)))
        link = await way.again()  # and another head is another head
        await link.aclose()
        assert link.peer == str(second)
    with pytest.raises(ConnectionError):
        await way.again()
