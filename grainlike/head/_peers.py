"""Connected worker, as the head's driver sees it: its link, what was sent to it, when it last sent something."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from grainlike.head._connection import Connection
from grainlike.jobs import WorkerInfo
from grainlike.net import Link
from grainlike.resources import Allocation
from grainlike.wire import ClassSpec, Define, Follow, FunctionSpec, Hello, ReceiptSpec, Undefine

__all__ = ["WorkerConnection"]


class WorkerConnection(Connection):
    """A connected worker."""

    def __init__(self, number: int, name: str, link: Link, hello: Hello, offer: Allocation, now: float) -> None:
        super().__init__(number, name, link, hello, now)
        self.offer = offer
        self.suspect = ""
        """Reason for which it gets no jobs for now, while it is silent or its link has broken; else empty."""
        self.beats = 0
        self.leaving = False
        self.skew = 0.0
        """Seconds by which our clock was ahead of its own at its last report, including the time that this took."""
        self.receipts: dict[int, ReceiptSpec] = {}
        """Enforced limits of each lease that has not ended."""
        self.follows: dict[tuple[int, int], None] = {}
        """Log subscriptions: (job, reader) pairs for which the worker sends output, in order."""
        self._functions: set[int] = set()
        self._classes: set[int] = set()

    def ask_for_output(self, follow: Follow) -> None:
        """Subscribe at the worker to the output of a job, or unsubscribe."""
        who = (follow.job, follow.follower)
        if follow.on:
            self.follows[who] = None
        else:
            self.follows.pop(who, None)
        self.post(follow)

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

    def real_cores(self) -> list[int]:
        """Return the offered cores that its machine has."""
        return [core for core in self.offer.cores if core not in self.hello.logical]

    def info(self, now: float, running: int, shut: str, shared: tuple[int, ...]) -> WorkerInfo:
        """Return the state of the worker as `ex.workers()` shows it."""
        hello, silent = self.hello, now - self.heard
        logical, tier = tuple(hello.logical), hello.memory_tier
        return WorkerInfo(self.name, self.offer, logical, hello.pid, running, self.beats, silent, tier, shut, shared)
