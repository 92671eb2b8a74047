"""Output of jobs, on the worker's side: to which job it belongs, where it is kept, and who follows it.

The daemon hands in what its runners' pipes bring, and at the end of an attempt that raised its traceback. Each attempt
that has any of these has a record. The head is told nothing, unless it follows a job, or an attempt ends with its
process: then it gets the last words.
"""

from __future__ import annotations

import codecs
import logging
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from grainlike.wire import Buffer, Code, Completed, Output, OutputStream, Parcel
from grainlike_worker.daemon._output_store import TAIL_BYTES, AttemptOutput, Piece, PieceRing, Spool
from grainlike_worker.runner.common._failures import failure_texts

__all__ = ["LIVE_S", "Outputs", "Show", "Tap", "show_all"]

logger = logging.getLogger("grainlike.worker")

LIVE_S = 1.0
"""How often a follower hears of output that is past its beginning, of which only the last part is told."""

LAST_WORDS = 4096
"""How many bytes of its output come with the loss of a job."""

MOST_RECORDS = 20_000
"""How many attempts that have ended, and have written anything, are remembered. Each takes some 700 bytes of memory,
and what it wrote lies in the spool.
"""

Show = Callable[[int, Any, str], object]
"""Shows on a stream of this process what the job of a number has written. From any thread."""

_MESSAGE_BYTES = 256 * 1024
_RUNNER_LOG_BYTES = 64 * 1024


def show_all(_: int, stream: Any, text: str) -> None:
    """Show what any job has written, as a `Show`."""
    stream.write(text)


class Outputs:
    """The output of all jobs of one worker. `post` tells the head; `show` shows all on this process's own streams.

    `known` has the jobs whose ends will be told, with their arguments; others are links of a chain, which end by
    themselves.
    """

    def __init__(
        self, post: Callable[[Output], None], known: Mapping[int, Parcel] | None = None, show: Show | None = None
    ) -> None:
        self.show = show
        self._known = known
        self._post = post
        self._spool = Spool()
        self._records: dict[int, list[AttemptOutput]] = {}
        """By job, in the order of attempts."""
        self.open: dict[int, AttemptOutput] = {}
        """Of attempts that have written and not ended, by job; read-only for callers."""
        self._ended: deque[AttemptOutput] = deque()
        self._late: AttemptOutput | None = None
        """Of an attempt that had ended, and wrote something after that; the last one."""
        self._dropped = 0
        """The highest number of a job of which a record was dropped."""
        self._dying: Tap | None = None
        self._pulsing = False
        self._followed: dict[int, _Followed] = {}

    def tap(self, runner: int) -> Tap:
        """Return the input for the output of one runner."""
        return Tap(self, runner)

    def close(self) -> None:
        """Forget everything."""
        self._spool.close()

    # --- what comes in -----------------------------------------------------------------------------------------------

    def add(self, job: int, attempt: int, stream: OutputStream, data: bytes) -> None:
        """A job wrote something."""
        record = self.open.get(job)
        if record is None or record.attempt != attempt:
            record = self._new_record(job, attempt)
        head = record.add(stream, data)
        if record.ended and record is not self._late:
            if self._late is not None:
                self._late.end()
            self._late = record
        if job in self._followed:
            if head:
                self._tell(record, [(stream, data[:head])])
            if head < len(data):
                self._followed[job].add(stream, data[head:])

    def _new_record(self, job: int, attempt: int) -> AttemptOutput:
        found = self._records.setdefault(job, [])
        if found and found[-1].attempt == attempt:
            return found[-1]  # something that an attempt left behind speaks after its end
        record = AttemptOutput(job, attempt, self._spool)
        found.append(record)
        if self._known is None or job in self._known:
            self.open[job] = record
        else:
            self._end(record)
        return record

    @contextmanager
    def dying(self, runner: Tap) -> Iterator[None]:
        """Context manager: jobs that are reported inside have ended because this runner has died."""
        self._dying = runner
        yield
        self._dying = None

    def completed(self, completed: Completed, buffers: Sequence[Buffer] = ()) -> None:
        """Attempts have ended, and the head is about to hear of it; `buffers` are those of their payloads."""
        for job, attempt, text in failure_texts(completed, buffers, self._known or {}):
            self.add(job, attempt, OutputStream.TRACEBACK, text)
        for job, attempt, code in zip(completed.jobs, completed.attempts, completed.codes, strict=True):
            record = self.open.get(job)
            if code in (Code.CRASHED, Code.UNBEGUN, Code.UNSTARTED, Code.OUT_OF_MEMORY):
                self._last_words(job, attempt, record)
            if record is not None and record.attempt == attempt and code != Code.RETURNED:
                self._tell_rest(job)
                del self.open[job]
                self._end(record)

    def _end(self, record: AttemptOutput) -> None:
        record.end()
        self._ended.append(record)
        if len(self._ended) > MOST_RECORDS:
            old = self._ended.popleft()
            self._dropped = max(self._dropped, old.job)
            records = self._records[old.job]
            records.remove(old)
            if not records:
                del self._records[old.job]

    # --- what the head hears -----------------------------------------------------------------------------------------

    def follow(self, job: int, follower: int) -> bool:
        """Tell a follower what there is of a job, and from now on what comes. True: `pulse` is wanted again."""
        followed = self._followed.setdefault(job, _Followed())
        self._tell_rest(job)  # to the others: to this one, it is part of what is told next
        followed.followers.add(follower)
        for record in self._records.get(job, ()):
            self._tell(record, record.pieces(), follower)
        self._post(Output(job, 0, *self._of_dropped(job), follower, caught_up=True))
        idle, self._pulsing = not self._pulsing, True
        return idle

    def _of_dropped(self, job: int) -> tuple[list[int], list[bytes]]:
        """Return a note if a record of a job may have been dropped: it is not recorded which had any."""
        if job in self._records or job > self._dropped:
            return [], []
        most = f"{MOST_RECORDS:,}".replace(",", " ")
        words = f"[if it wrote anything, that is not kept any more: workers keep what the last {most} attempts wrote]"
        return [OutputStream.NOTE], [words.encode()]

    def unfollow(self, job: int, follower: int) -> None:
        """Remove a listener of a job."""
        followed = self._followed.get(job)
        if followed is not None:
            followed.followers.discard(follower)
            if not followed.followers:
                del self._followed[job]

    def pulse(self) -> bool:
        """Tell what has waited; to be called again after `LIVE_S`, while it returns True."""
        for job in self._followed:
            self._tell_rest(job)
        self._pulsing = bool(self._followed)
        return self._pulsing

    def _tell_rest(self, job: int) -> None:
        """Send followers of a long output what they have not received yet."""
        followed, record = self._followed.get(job), self.open.get(job)
        if followed is not None and followed.late is not None and record is not None:
            self._tell(record, followed.late.take())

    def _tell(self, record: AttemptOutput, pieces: Iterable[Piece], follower: int = 0) -> None:
        streams: list[int] = []
        data: list[bytes] = []
        size = 0
        for stream, piece in pieces:
            streams.append(stream)
            data.append(piece)
            size += len(piece)
            if size > _MESSAGE_BYTES:
                self._post(Output(record.job, record.attempt, streams, data, follower))
                streams, data, size = [], [], 0
        if data:
            self._post(Output(record.job, record.attempt, streams, data, follower))

    def _last_words(self, job: int, attempt: int, record: AttemptOutput | None) -> None:
        runner = self._dying
        pieces: list[Piece] = []
        if record is not None and record.attempt == attempt:
            pieces.append((OutputStream.STDOUT, record.last(LAST_WORDS)))
        if runner is not None and runner.unclaimed:
            pieces.append((OutputStream.RUNNER, runner.unclaimed[-LAST_WORDS:]))
        if pieces:
            self._post(Output(job, attempt, [s for s, _ in pieces], [d for _, d in pieces], last_words=True))


class _Followed:
    """Followers of a job, and what was not sent to them yet, once its output is long."""

    __slots__ = ("followers", "late")

    def __init__(self) -> None:
        self.followers: set[int] = set()
        self.late: PieceRing | None = None

    def add(self, stream: OutputStream, data: bytes) -> None:
        if self.late is None:
            self.late = PieceRing(TAIL_BYTES)
        self.late.add(stream, data)


class Tap:
    """Input for the output of one runner: bytes from its descriptors, and text whose job is known.

    What comes from the descriptors is the job's whose turn it is in a runner of its own. In a runner that jobs share,
    it is of no job: it is kept for the end of the runner, and the beginning of it is put into the worker's log.
    """

    def __init__(self, outputs: Outputs, runner: int) -> None:
        self._outputs = outputs
        self._runner = runner
        self._jobs: Sequence[int] = ()
        self._attempts: Sequence[int] = ()
        self._logged = 0
        self._unlogged = b""
        self._decoders: dict[OutputStream, codecs.IncrementalDecoder] = {}
        self.on_records: Callable[[Tap, list[bytes]], object] | None = None
        """Takes records of `logging` that the runner has sent."""
        self.link: Callable[[], int] | None = None
        """Tells which link of a chain the runner is at, 0 for none."""
        self.unclaimed = b""
        """The last output that is of no job."""

    @property
    def crowded(self) -> bool:
        """Return True if several jobs of a run-list are yet to run: the runner itself says then whose output it is."""
        return len(self._jobs) > 1

    @property
    def leased(self) -> bool:
        """Return True if the runner has one lease at a time."""
        return bool(self._jobs)

    def lease(self, jobs: Sequence[int], attempts: Sequence[int]) -> None:
        """Record that the runner works on these jobs from now on, one after another."""
        self._jobs, self._attempts = jobs, attempts

    def only(self, position: int) -> None:
        """Record that no job but the one at `position` will run any more."""
        if 0 <= position < len(self._jobs):
            self._jobs, self._attempts = [self._jobs[position]], [self._attempts[position]]

    def at_link(self) -> int:
        """Return the job of the link of a chain that the runner is at; 0 for none."""
        return self.link() if self.link is not None else 0

    def raw(self, stream: OutputStream, data: bytes, link: int = 0) -> None:
        """Take what the runner's descriptor brought, while it was at this link of a chain."""
        self._show(link or (self._jobs[0] if self._jobs else 0), stream, data)
        if link:
            self._outputs.add(link, 1, stream, data)
        elif self._jobs:
            self._outputs.add(self._jobs[0], self._attempts[0], stream, data)
        else:
            self._keep_unclaimed(data)

    def told(self, job: int, attempt: int, stream: OutputStream, data: bytes, *, shown: bool = False) -> None:
        """Take what the runner knows to be of a job. `shown`: this process's streams have it already."""
        if not shown and stream is not OutputStream.TRACEBACK:
            self._show(job, stream, data)
        self._outputs.add(job, attempt, stream, data)

    def logged(self, records: list[bytes]) -> None:
        """Pass on records of `logging` that the runner has sent."""
        if self.on_records is not None and records:
            self.on_records(self, records)

    def _keep_unclaimed(self, data: bytes) -> None:
        self.unclaimed = (self.unclaimed + data)[-LAST_WORDS:]
        lines, ended, rest = (self._unlogged + data).rpartition(b"\n")
        if self._logged < _RUNNER_LOG_BYTES:
            self._unlogged = rest[-LAST_WORDS:]
            self._logged += len(lines)
            if ended:
                text = lines.decode(errors="backslashreplace")
                logger.info("runner %d wrote, for which of its jobs is unknown: %s", self._runner, text)

    def _show(self, job: int, stream: OutputStream, data: bytes) -> None:
        show = self._outputs.show
        if show is None:
            return
        decoder = self._decoders.get(stream)
        if decoder is None:
            decoder = self._decoders[stream] = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        out = sys.stderr if stream in (OutputStream.STDERR, OutputStream.LOG) else sys.stdout
        try:
            show(job, out, decoder.decode(data))
            out.flush()
        except Exception:  # noqa: BLE001, S110 - the program's stream may be closed, or anything: the job goes on
            pass
