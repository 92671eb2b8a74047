"""Output of jobs, for readers: `ex.logs(r_)`.

The output lies at the workers. A reader makes the head query the job's workers, those of earlier attempts too, and
they send what there is and then what comes. Nothing is sent about jobs without readers, but the last output of
attempts that died with their process.
"""

from __future__ import annotations

import codecs
import logging
import math
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Protocol, TypeVar, cast

import anyio

from grainlike.head._peers import WorkerConnection
from grainlike.jobs import NO_PARCEL, Job, LogLine, Placement
from grainlike.wire import EndedJob, Follow, Output, OutputStream

__all__ = ["EndedSource", "LogFollower", "LogRouter", "Source", "last_words", "source_of"]

logger = logging.getLogger("grainlike")

LONGEST_LINE = 64 * 1024
"""Length in bytes from which a line without an end is sent in pieces."""

ANSWER_S = 15.0
"""Seconds for which a reader of what was written waits for a worker that says nothing."""

_UNREAD = 4 << 20
"""Bytes that may wait for a reader; beyond that, the oldest are left out."""


class Source(Protocol):
    """Job whose output is read: a placeholder, or a job that has none here."""

    waiters: list[Any] | None
    """Functions to call at the end."""

    @property
    def record(self) -> Any:
        """The job, once there is one."""
        ...

    @property
    def finished(self) -> bool:
        """True if the job has ended: all its output was sent then."""
        ...


class EndedSource:
    """Job that the head has dropped, and that was `ended` if it is remembered.

    Its output is asked for at the worker that had it; at all of `workers` if it may have been at others before.
    """

    finished = True
    waiters: list[Any] | None = None

    def __init__(self, number: int, workers: Iterable[str], ended: EndedJob | None) -> None:
        last, attempts = (None, 0) if ended is None else (ended.worker or None, ended.attempts)
        asked = workers if ended is None or attempts > 1 else ()
        self.record = Job(number, 0, None, NO_PARCEL)
        self.record.placement = Placement(last, attempts, tuple((worker, 0) for worker in asked))
        self.silence = ""
        """Sentence to tell if nothing of its output is found."""
        if ended is None:
            self.silence = "[no worker that is here has anything of it, and the head has forgotten where it ran]"
        elif ended.ran_s is None and not attempts:
            self.silence = "[it was never sent to a worker, so it wrote nothing]"


def source_of(job: Job) -> Source:
    """Return the source of a job's output: its placeholder, or the job itself."""
    return job.node if job.node is not None else cast("Source", job)


class LogRouter:
    """Readers of the output of one head's jobs. True when there are any. `ask` sends queries to workers.

    `number` gives each reader a number of its own: what a worker sends to one may arrive when that is long closed.
    """

    def __init__(self, ask: Callable[[WorkerConnection, Follow], None], number: Callable[[], int]) -> None:
        self._send = ask
        self._number = number
        self.listeners: dict[int, LogFollower] = {}
        self._by_job: dict[_JobAt, dict[int, LogFollower]] = {}
        """Readers by what they have subscribed to: a busy head must not try all of them for each piece of output."""
        self._by_node: dict[int, dict[int, LogFollower]] = {}
        """Readers by the `id` of the placeholder or job that they read, which lives as long as they do."""

    async def lines(
        self, node: Source, peers: Collection[WorkerConnection], *, follow: bool = True
    ) -> AsyncGenerator[LogLine, None]:
        """Iterate over the lines that the job of `node` has written and, with `follow`, those that it writes until it
        has finished.
        """
        number = self._number()
        listener = self.listeners[number] = LogFollower(number, node, self._ask, follow=follow)
        self._by_node.setdefault(id(node), {})[number] = listener
        if not node.finished:
            node.waiters = [*(node.waiters or ()), listener.set]
        try:
            silent = True
            for line in listener.catch_up(peers):
                silent = False
                yield line
            while (lines := await listener.wait(peers)) is not None:
                for line in lines:
                    silent = False
                    yield line
            if silent and (why := listener.silence):
                yield LogLine(why, 0, "note")
        finally:
            if node.waiters is not None and listener.set in node.waiters:
                node.waiters.remove(listener.set)
            listener.leave()
            del self.listeners[number]
            _drop(self._by_node, id(node), number)

    def _ask(self, peer: WorkerConnection, follow: Follow) -> None:
        """Subscribe a reader at a worker, or unsubscribe it."""
        source, number = (peer.number, follow.job), follow.follower
        if follow.on:
            self._by_job.setdefault(source, {})[number] = self.listeners[number]
        else:
            _drop(self._by_job, source, number)
        self._send(peer, follow)

    def assigned(self, peer: WorkerConnection, jobs: Sequence[Job]) -> None:
        """Query workers to which these jobs have been sent, for their readers."""
        for first in jobs:
            for job in (first, *first.links):
                for listener in self._by_node.get(id(source_of(job)), {}).values():
                    listener.ask(job, peer)

    def hear(self, peer: WorkerConnection, output: Output) -> None:
        """Pass a job's output from a worker to the readers."""
        for listener in self._by_job.get((peer.number, output.job), {}).values():
            listener.hear(peer, output)

    def left(self, peer: WorkerConnection) -> None:
        """Remove a worker that has left; it sends no more output."""
        self._by_job = {source: readers for source, readers in self._by_job.items() if source[0] != peer.number}
        for listener in self.listeners.values():
            listener.lose(peer)


_JobAt = tuple[int, int]
"""A worker's number, and that of a job there."""

_Key = TypeVar("_Key", int, _JobAt)


def _drop(readers: dict[_Key, dict[int, LogFollower]], key: _Key, number: int) -> None:
    """Remove a reader from an index, if it is there."""
    found = readers.get(key, {})
    found.pop(number, None)
    if not found:
        readers.pop(key, None)


class LogFollower:
    """Reader: one iteration over the output of one node. `set` is called when the node has finished."""

    def __init__(
        self, number: int, node: Source, ask: Callable[[WorkerConnection, Follow], None], *, follow: bool = True
    ) -> None:
        self.number = number
        self.node = node
        self._ask = ask
        self._follow = follow
        self._asked: dict[_JobAt, WorkerConnection] = {}
        self._behind: set[_JobAt] = set()
        """Sources of those queried that have not yet sent what there is."""
        self._gone: set[str] = set()
        self._lines = _Lines()
        self._unread: deque[tuple[int, OutputStream, bytes]] = deque()
        self._size = 0
        self._cut = 0
        self._dropped = ""
        self._changed = anyio.Event()

    def set(self) -> None:
        """Something has happened."""
        self._changed.set()

    # --- the head's side ---------------------------------------------------------------------------------------------

    def catch_up(self, peers: Collection[WorkerConnection]) -> Iterator[LogLine]:
        """Query the workers that the job has run on; of those that have left, its output is lost."""
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

    def ask(self, job: Job, peer: WorkerConnection) -> None:
        """Ask a worker, once."""
        source = (peer.number, job.id)
        if source not in self._asked:
            self._asked[source] = peer
            self._behind.add(source)
            self._gone.add(peer.name)
            self._ask(peer, Follow(job.id, self.number, True))

    def hear(self, peer: WorkerConnection, output: Output) -> None:
        """Take output from a worker; it may be for other readers, or be part of what is about to be sent to this."""
        source = (peer.number, output.job)
        if source not in self._asked:
            return
        if output.follower not in (0, self.number) or (output.follower == 0 and source in self._behind):
            return
        if output.caught_up and output.data:  # it has nothing of the job, and says that it once may have had
            self._dropped = output.data[0].decode(errors="replace")
        for stream, data in () if output.caught_up else zip(output.streams, output.data, strict=True):
            self._unread.append((output.attempt, OutputStream(stream), data))
            self._size += len(data)
        while self._size > _UNREAD:
            _, _, data = self._unread.popleft()
            self._size -= len(data)
            self._cut += len(data)
        if output.caught_up:
            self._behind.discard(source)
        self.set()

    def lose(self, peer: WorkerConnection) -> None:
        """Expect no more output from a worker."""
        self._asked = {source: asked for source, asked in self._asked.items() if asked is not peer}
        self._behind.intersection_update(self._asked)
        self.set()

    def leave(self) -> None:
        """Unsubscribe from the workers."""
        for (_, job), peer in self._asked.items():
            self._ask(peer, Follow(job, self.number, False))

    # --- the listener's side -----------------------------------------------------------------------------------------

    @property
    def silence(self) -> str:
        """Sentence for a reader who was told nothing; empty if the job has not ended, or truly wrote nothing."""
        if not self.node.finished:
            return ""
        return self._dropped or (self.node.silence if isinstance(self.node, EndedSource) else "")

    async def wait(self, peers: Collection[WorkerConnection]) -> list[LogLine] | None:
        """Wait for lines; None when there will be none any more."""
        while self._behind or not self._unread:
            if (self.node.finished or not self._follow) and not self._behind:
                # One that travelled with others was not told of by its own name until now.
                told = list(self.catch_up(peers)) or (self._lines.end() if not self._behind else [])
                if told or not self._behind:
                    return told or None
            self._changed = anyio.Event()
            with anyio.move_on_after(ANSWER_S if self.node.finished or not self._follow else math.inf) as waited:
                await self._changed.wait()
            if waited.cancelled_caught and self._behind:
                return self._give_up()
        return self._take()

    def _give_up(self) -> list[LogLine]:
        """Expect no more from the workers that owe what there is; return a note for each."""
        names = sorted(peer.name for source, peer in self._asked.items() if source in self._behind)
        self._behind.clear()
        words = "has not answered for {:g} s: what the job wrote there is left out"
        return [LogLine(f"[worker {name} {words.format(ANSWER_S)}]", 0, "note") for name in names]

    def _take(self) -> list[LogLine]:
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
        """Return the lines that end in these bytes; and the rests of earlier attempts, to which nothing will be
        added.
        """
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
        """Return the rest without a line end, of attempts before this one, or of all."""
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


def last_words(output: Output) -> str | None:
    """Return the last output of an attempt before its process died, as a note for the error of its loss; None if it
    wrote nothing.
    """
    from grainlike._last_words import as_note  # few programs fail, and heads load no module for them

    parts = []
    for stream, data in zip(output.streams, output.data, strict=True):
        whose = "its runner, for whichever job," if stream == OutputStream.RUNNER else "it"
        text = data.decode(errors="backslashreplace").rstrip()
        if text:
            parts.append(as_note(f"grainlike: the last that {whose} wrote:\n{text}"))
    return "\n".join(parts) or None
