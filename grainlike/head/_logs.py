"""What jobs have printed, for those who ask: `ex.logs(r_)`.

The output lies at the workers. Whoever asks makes the head ask the job's workers, those of earlier attempts too, and
they tell what there is and then what comes. Nothing is sent about jobs that nobody asks about, but the last words of
attempts that died with their process.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from operator import itemgetter
from typing import Any, Protocol, Self, cast

import anyio

from grainlike.head._peers import Peer
from grainlike.jobs import NO_PARCEL, Job, Placement
from grainlike.wire import Follow, Output, OutputStream

__all__ = ["EndedJob", "Listener", "LogLine", "Logs", "Source", "last_words", "source_of"]

LONGEST_LINE = 64 * 1024
"""What has no line end for so long is told in pieces."""

_UNREAD = 4 << 20
"""How many bytes may wait for whoever iterates; of more, the oldest are left out."""


class LogLine(str):
    """One line that a job has written, without its end: a string that also knows where it comes from.

    Attributes:
        attempt: of the attempts to run the job, the one that wrote it.
        stream: `"stdout"` or `"stderr"`; `"note"` for words about the output by grainlike, such as how much of it is
            left out.
    """

    __slots__ = ("attempt", "stream")

    attempt: int
    stream: str

    def __new__(cls, text: str, attempt: int, stream: str) -> Self:
        line = super().__new__(cls, text)
        line.attempt = attempt
        line.stream = stream
        return line


class Source(Protocol):
    """Whose output it is: a placeholder, or a job that has none here."""

    waiters: list[Any] | None
    """Who is told of the end, by `set()`."""

    @property
    def record(self) -> Any:
        """The job, once there is one."""
        ...

    @property
    def finished(self) -> bool:
        """Whether it has ended: what it wrote has been told then."""
        ...


class EndedJob:
    """A job of which nothing is known here any more: any worker may still have what it wrote."""

    finished = True
    waiters: list[Any] | None = None

    def __init__(self, number: int, peers: Collection[Peer]) -> None:
        self.record = Job(number, 0, None, NO_PARCEL)
        self.record.placement = Placement(None, 0, tuple((peer.name, 0) for peer in peers))


def source_of(job: Job) -> Source:
    """By whose name the output of a job is listened to."""
    return job.node if job.node is not None else cast("Source", job)


class Logs:
    """Everybody who listens to jobs of one head. True when anybody does. `ask` sends questions to workers.

    `number` gives each listener a number that none has had: what a worker says to one may come when it is long gone.
    """

    def __init__(self, ask: Callable[[Peer, Follow], None], number: Callable[[], int]) -> None:
        self._ask = ask
        self._number = number
        self._listeners: dict[int, Listener] = {}

    def __bool__(self) -> bool:
        return bool(self._listeners)

    async def lines(
        self, node: Source, peers: Collection[Peer], *, follow: bool = True
    ) -> AsyncGenerator[LogLine, None]:
        """What `node` has written, as a job, and, to `follow` it, what it writes until it has finished."""
        number = self._number()
        listener = self._listeners[number] = Listener(number, node, self._ask, follow=follow)
        if not node.finished:
            node.waiters = [*(node.waiters or ()), listener]
        try:
            for line in listener.catch_up(peers):
                yield line
            while (lines := await listener.wait(peers)) is not None:
                for line in lines:
                    yield line
        finally:
            del self._listeners[listener.number]
            if node.waiters is not None and listener in node.waiters:
                node.waiters.remove(listener)
            listener.leave()

    def assigned(self, peer: Peer, jobs: Sequence[Job]) -> None:
        """These jobs have been sent to a worker."""
        for listener in self._listeners.values():
            for first in jobs:
                for job in (first, *first.links):
                    if source_of(job) is listener.node:
                        listener.ask(job, peer)

    def hear(self, peer: Peer, output: Output) -> None:
        """A worker tells of a job's output."""
        for listener in self._listeners.values():
            listener.hear(peer, output)

    def left(self, peer: Peer) -> None:
        """A worker is gone; it will say nothing more."""
        for listener in self._listeners.values():
            listener.lose(peer)


_Source = tuple[int, int]
"""A worker's number, and that of a job there."""


class Listener:
    """One iteration over the output of one node. `set` is called when the node has finished."""

    def __init__(self, number: int, node: Source, ask: Callable[[Peer, Follow], None], *, follow: bool = True) -> None:
        self.number = number
        self.node = node
        self._ask = ask
        self._follow = follow
        self._asked: dict[_Source, Peer] = {}
        self._behind: set[_Source] = set()
        """Of those asked, who has yet to tell what there is."""
        self._gone: set[str] = set()
        self._lines = _Lines()
        self._unread: deque[tuple[int, OutputStream, bytes]] = deque()
        self._size = 0
        self._cut = 0
        self._changed = anyio.Event()

    def set(self) -> None:
        """Something has happened."""
        self._changed.set()

    # --- the head's side ---------------------------------------------------------------------------------------------

    def catch_up(self, peers: Collection[Peer]) -> Iterator[LogLine]:
        """Ask the workers that the job has been to; those that are gone have taken its output with them."""
        job = self.node.record
        if not isinstance(job, Job):
            return
        here = {peer.name: peer for peer in peers}
        for name, attempt in job.places():
            if name in here:
                self.ask(job, here[name])
            elif name not in self._gone:
                self._gone.add(name)
                yield LogLine(f"[what it wrote on worker {name} is gone with that worker]", attempt, "note")

    def ask(self, job: Job, peer: Peer) -> None:
        """Ask a worker, once."""
        source = (peer.number, job.job)
        if source not in self._asked:
            self._asked[source] = peer
            self._behind.add(source)
            self._gone.add(peer.name)
            self._ask(peer, Follow(job.job, self.number, True))

    def hear(self, peer: Peer, output: Output) -> None:
        """A worker said something; it may be meant for others, or be part of what it is about to say to us."""
        source = (peer.number, output.job)
        if source not in self._asked:
            return
        if output.follower not in (0, self.number) or (output.follower == 0 and source in self._behind):
            return
        for stream, data in zip(output.streams, output.data, strict=True):
            self._unread.append((output.attempt, OutputStream(stream), data))
            self._size += len(data)
        while self._size > _UNREAD:
            _, _, data = self._unread.popleft()
            self._size -= len(data)
            self._cut += len(data)
        if output.caught_up:
            self._behind.discard(source)
        self.set()

    def lose(self, peer: Peer) -> None:
        """A worker will say nothing more."""
        self._asked = {source: asked for source, asked in self._asked.items() if asked is not peer}
        self._behind.intersection_update(self._asked)
        self.set()

    def leave(self) -> None:
        """Nobody listens any more."""
        for (_, job), peer in self._asked.items():
            self._ask(peer, Follow(job, self.number, False))

    # --- the listener's side -----------------------------------------------------------------------------------------

    async def wait(self, peers: Collection[Peer]) -> list[LogLine] | None:
        """Wait for lines; None when there will be none any more."""
        while self._behind or not self._unread:
            if (self.node.finished or not self._follow) and not self._behind:
                # One that travelled with others was not told of by its own name until now.
                told = list(self.catch_up(peers)) or (self._lines.end() if not self._behind else [])
                if told or not self._behind:
                    return told or None
            self._changed = anyio.Event()
            await self._changed.wait()
        # Two workers may tell of two attempts at the same time.
        taken = sorted(self._unread, key=itemgetter(0))
        self._unread.clear()
        lines = (
            [LogLine(f"[{self._cut} bytes came faster than they were read]", taken[0][0], "note")] if self._cut else []
        )
        self._size = self._cut = 0
        for attempt, stream, data in taken:
            lines += self._lines.feed(attempt, stream, data)
        return lines


class _Lines:
    """Cuts bytes into lines, each stream of each attempt for itself."""

    def __init__(self) -> None:
        self._rest: dict[tuple[int, OutputStream], tuple[codecs.IncrementalDecoder, str]] = {}

    def feed(self, attempt: int, stream: OutputStream, data: bytes) -> list[LogLine]:
        """The lines that end in these bytes; and the rests of earlier attempts, to which nothing will be added."""
        lines = self.end(before=attempt)
        if stream is OutputStream.NOTE:
            return [*lines, LogLine(data.decode(errors="replace"), attempt, "note")]
        decoder, rest = self._rest.pop((attempt, stream), (_decoder(), ""))
        *whole, rest = (rest + decoder.decode(data)).split("\n")
        while len(rest) > LONGEST_LINE:
            whole.append(rest[:LONGEST_LINE])
            rest = rest[LONGEST_LINE:]
        self._rest[attempt, stream] = (decoder, rest)
        return lines + [_line(text, attempt, stream) for text in whole]

    def end(self, before: int | None = None) -> list[LogLine]:
        """What stands there without a line end, of attempts before this one, or of all."""
        ended = [key for key in self._rest if before is None or key[0] < before]
        found: list[LogLine] = []
        for attempt, stream in ended:
            decoder, rest = self._rest.pop((attempt, stream))
            text = rest + decoder.decode(b"", final=True)
            if text:
                found.append(_line(text, attempt, stream))
        return found


def _line(text: str, attempt: int, stream: OutputStream) -> LogLine:
    return LogLine(text.removesuffix("\r"), attempt, stream.name.lower())


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("backslashreplace")


def last_words(output: Output) -> str:
    """What an attempt wrote last, before its process died, as a note for the error of its loss."""
    parts = []
    for stream, data in zip(output.streams, output.data, strict=True):
        whose = "its runner, for whichever job," if stream == OutputStream.RUNNER else "it"
        parts.append(f"the last that {whose} wrote:\n{data.decode(errors='backslashreplace').rstrip()}")
    return "grainlike: " + "\n".join(parts)
