"""Simulated copies of values: bytes that share the links of their two ends, and take their time."""

from __future__ import annotations

from collections.abc import Callable

from grainlike.simulation._clock import Clock
from grainlike.simulation._daemon import Daemon

__all__ = ["Copies"]

_LOOK_S = 0.1
"""Seconds after which a copy that stands still, as one of its ends does, is looked at again."""


class _Copy:
    __slots__ = ("done", "epoch", "left", "most", "rate", "since", "source", "target")

    def __init__(
        self,
        source: Daemon | None,
        target: Daemon | None,
        size: float,
        most: float,
        now: float,
        done: Callable[[], None],
    ) -> None:
        self.source = source
        self.target = target
        self.left = float(size)
        self.most = most
        self.rate = 0.0
        self.since = now
        self.done = done
        self.epoch = 0

    @property
    def ends(self) -> list[Daemon]:
        """The workers at its ends."""
        return [end for end in (self.source, self.target) if end is not None]


class Copies:
    """All copies that are under way. Each end has `bytes_per_s` in each direction, shared evenly; the program has
    plenty.
    """

    def __init__(self, clock: Clock, bytes_per_s: float) -> None:
        self._clock = clock
        self._bytes_per_s = bytes_per_s
        self._copies: list[_Copy] = []

    def start(
        self,
        source: Daemon | None,
        target: Daemon | None,
        size: float,
        done: Callable[[], None],
        most: float | None = None,
    ) -> Callable[[], float | None]:
        """Copy `size` bytes from `source` to `target`, `most` a second; one of the two may be None: the program. `done`
        is called when all are there, unless an end dies. Return what stops the copy and returns how many bytes were
        left; None if it is over.
        """
        copy = _Copy(source, target, size, self._bytes_per_s if most is None else most, self._clock.now, done)
        self._copies.append(copy)
        self._share()

        def stop() -> float | None:
            if copy not in self._copies:
                return None
            self._share()
            self._copies.remove(copy)
            self._share()
            return copy.left

        return stop

    def stop_all(self) -> None:
        """Stop all copies."""
        self._copies = []

    def stop(self, worker: int) -> None:
        """Stop all copies from and to a worker."""
        ends = (worker,)
        self._copies = [copy for copy in self._copies if not any(end.worker in ends for end in copy.ends)]
        self._share()

    def _share(self) -> None:
        """Divide the links among the copies, and say when each ends at this rate."""
        now = self._clock.now
        going_out: dict[int, int] = {}
        going_in: dict[int, int] = {}
        for copy in self._copies:
            if copy.source is not None:
                going_out[copy.source.worker] = going_out.get(copy.source.worker, 0) + 1
            if copy.target is not None:
                going_in[copy.target.worker] = going_in.get(copy.target.worker, 0) + 1
        for copy in self._copies:
            copy.left = max(0.0, copy.left - copy.rate * (now - copy.since))
            most = 1 if copy.source is None else going_out[copy.source.worker]
            if copy.target is not None:
                most = max(most, going_in[copy.target.worker])
            copy.rate, copy.since = min(copy.most, self._bytes_per_s / most), now
            copy.epoch += 1
            self._clock.after(copy.left / copy.rate, self._end, copy, copy.epoch)

    def _end(self, copy: _Copy, epoch: int) -> None:
        if copy.epoch != epoch or copy not in self._copies:
            return
        ends = copy.ends
        if any(end.alive and (end.frozen or end.up.is_held) for end in ends):
            self._clock.after(_LOOK_S, self._end, copy, epoch)
            return
        self._copies.remove(copy)
        self._share()
        if all(end.alive for end in ends):
            copy.done()
