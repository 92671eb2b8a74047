"""Connections to a head, of workers and of clients: the link, and what the driver knows of the remote end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache

import anyio

from grainlike.jobs import WorkerInfo
from grainlike.net import ByteLink, Link, ResumableSession, is_of_this_machine
from grainlike.resources import Allocation
from grainlike.wire import (
    Buffer,
    ClassSpec,
    Define,
    Follow,
    FunctionSpec,
    Goodbye,
    Hello,
    Message,
    ReceiptSpec,
    Undefine,
)

__all__ = ["Connection", "WorkerConnection", "names_meant"]

_REPORTS = 16
"""About so many reports that took longer raise the estimate of a clock to theirs."""


def names_meant(names: Collection[str], patterns: Sequence[str]) -> set[str]:
    """Return those of `names` that `patterns` mean: of a pattern that is one of the names itself, that one alone, as a
    name may have brackets.

    Example::

        >>> sorted(names_meant(["a[red]", "ar", "n1", "n2"], ["a[red]", "n*"]))
        ['a[red]', 'n1', 'n2']
    """
    whole = set(names).intersection(patterns)
    others = [pattern for pattern in patterns if pattern not in whole]
    return whole.union(name for name in names if any(fnmatchcase(name, pattern) for pattern in others))


class Connection:
    """Remote end that was admitted at the moment `now`, as described by `hello`, over `link`, which it survives."""

    def __init__(self, number: int, name: str, link: Link, hello: Hello, now: float) -> None:
        self.number = number
        self.name = name
        self.link: Link = link
        self.hello = hello
        self.session: ResumableSession | None = (
            ResumableSession(link) if isinstance(link, ByteLink) and hello.received >= 0 else None
        )
        """Resumable session; None where a link that breaks is the end."""
        self.taken_over: anyio.Event = anyio.Event()
        """Set when the remote end has reconnected; replaced by a new event then."""
        self.heard = now

    @property
    def over(self) -> bool:
        """True if the remote end has sent `Goodbye`."""
        return self.session is not None and self.session.over is not None

    @property
    def receiver(self) -> Connection | None:
        """Connection that receives the bytes of values that stay; None for a worker, whose jobs own none."""
        return None

    def keeps(self, child: int) -> int:  # noqa: ARG002 - only sessions keep any
        """Return how many names and graphs keep the value of a call: none."""
        return 0

    def name_of(self, child: int) -> str:  # noqa: ARG002 - only calls of sessions have any
        """Return the name that a call has here: none."""
        return ""

    @property
    def graph(self) -> None:
        """Calls of graphs: those are of sessions alone."""
        return

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        """Send a message; what a broken link swallows goes with the next one, or it is lost."""
        if self.session is None:
            self.link.post(message, buffers)
        else:
            self.session.post(message, buffers)

    def go_on(self, link: ByteLink, received: int) -> None:
        """Resume over another link, after a `Welcome`: the session can, as not too much was unacknowledged."""
        assert self.session is not None
        self.session.go_on(link, received)
        self.link, old = link, self.link
        old.close("it has connected again")
        self.taken_over.set()
        self.taken_over = anyio.Event()


@lru_cache(maxsize=1024)  # each report asks
def _has_our_clock(process: str) -> bool:
    return is_of_this_machine(process)


class WorkerConnection(Connection):
    """A connected worker."""

    def __init__(self, number: int, name: str, link: Link, hello: Hello, offer: Allocation, now: float) -> None:
        super().__init__(number, name, link, hello, now)
        self.offer = offer
        self.suspect = ""
        """Reason for which it gets no jobs for now, while it is silent or its link has broken; else empty."""
        self.beats = 0
        self.leaving: bool = False
        self.skew: float = 0.0
        """Seconds by which our clock is ahead of its own, as far as reports tell: none is known before the first."""
        self.receipts: dict[int, ReceiptSpec] = {}
        """Enforced limits of each lease that has not ended."""
        self.follows: dict[tuple[int, int], None] = {}
        """Log subscriptions: (job, reader) pairs for which the worker sends output, in order."""
        self._functions: set[int] = set()
        self._classes: set[int] = set()

    def skew_by(self, late: float, *, monotonic: bool) -> float:
        """Return the seconds by which our clock is ahead of its own, after a report that was sent `late` seconds ago
        by that clock. Ours is this machine's `monotonic` one, or starts elsewhere.

        Another process of this machine has the same. Of others, the reports that took least tell; they also tell that
        the two clocks drift apart, so a larger figure counts a little.
        """
        if monotonic and _has_our_clock(self.hello.process):
            return 0.0
        if not self.skew or late < self.skew:
            return late
        return self.skew + (late - self.skew) / _REPORTS

    def say_goodbye(self, reason: str) -> None:
        """Tell a worker that no more messages come, and that reconnecting is of no use."""
        if self.session is not None:
            self.post(Goodbye(reason))
        else:
            self.leaving = True  # embedded, so cancelled with this program: its end of the link may close first

    def ask_for_output(self, follow: Follow) -> None:
        """Subscribe at the worker to the output of a job, or unsubscribe."""
        who = (follow.job, follow.follower)
        if follow.on:
            self.follows[who] = None
        else:
            self.follows.pop(who, None)
        self.post(follow)

    def has(self, functions: Iterable[int], cls: int) -> bool:
        """Return True if the worker was sent these functions and this class."""
        return cls in self._classes and self._functions.issuperset(functions)

    def define(self, functions: Sequence[tuple[FunctionSpec, bytes]], cls: ClassSpec) -> None:
        """Send the worker functions and a class before their jobs; those that it has are left out."""
        fresh = [(spec, data) for spec, data in functions if spec.fn not in self._functions]
        classes = [] if cls.cls in self._classes else [cls]
        if fresh or classes:
            self._functions.update(spec.fn for spec, _ in fresh)
            self._classes.add(cls.cls)
            self.post(Define([spec for spec, _ in fresh], classes), [data for _, data in fresh])

    def undefine(self, functions: Iterable[int]) -> None:
        """Drop these functions at the worker, as far as it has them."""
        gone = [fn for fn in functions if fn in self._functions]
        if gone:
            self._functions.difference_update(gone)
            self.post(Undefine(gone, []))

    def undefine_classes(self, classes: Iterable[int]) -> None:
        """Drop those of these classes that the worker has."""
        gone = [cls for cls in classes if cls in self._classes]
        if gone:
            self._classes.difference_update(gone)
            self.post(Undefine([], gone))

    @property
    def means(self) -> tuple[float, bool, int, int]:
        """Return its seconds, whether it has a data server, and its bytes for values in memory and on disk."""
        return self.hello.left_s, bool(self.hello.data), self.hello.store, self.hello.scratch

    def real_cores(self) -> list[int]:
        """Return the offered cores that its machine has."""
        return [core for core in self.offer.cores if core not in self.hello.logical]

    def info(self, now: float, running: int, shut: str, shared: tuple[int, ...], stored: int) -> WorkerInfo:
        """Return the state of the worker as `ex.workers()` shows it."""
        hello, silent = self.hello, now - self.heard
        logical, tier = tuple(hello.logical), hello.memory_tier
        seen = hello.pid, running, self.beats, silent
        where = hello.block, hello.host
        info = WorkerInfo(self.name, self.offer, logical, *seen, tier, shut, shared, *where, stored, data=hello.data)
        return replace(info, store=hello.store, scratch=hello.scratch)
