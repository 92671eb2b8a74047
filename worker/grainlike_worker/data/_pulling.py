"""Pulls of replicas from other data servers: over a few connections to each, one after another (`_receiving`)."""

from __future__ import annotations

import ssl
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from grainlike.errors import GrainlikeError
from grainlike.wire import Pulled, PullInto, Received, Unsent
from grainlike_worker.data._receiving import Pull, Receiver, UnwritableError
from grainlike_worker.data._tls import DataTls

__all__ = ["Puller"]

MOST_CONNECTIONS = 4
"""Connections to one data server at most: so a small replica need not wait for a large one."""

IDLE_S = 10.0
"""Seconds for which a connection is kept of which nothing is wanted; less than the other end keeps it."""


class Puller:
    """Gets the replicas of `directory` into rooms that are allocated for them. What comes of each pull goes to `post`,
    from whatever thread: `Received` or `Unsent`. A source that sends nothing for `patience_s` is unreachable.

    Example::

        puller = Puller(tls, directory, print, patience_s=10.0)
        puller.pull(PullInto(PullReplica(1, 7, 1, size, 0, "tcp://n2:7777", name), room))
        puller.progress()                                   # Pulled([1], [65536]), or None
    """

    def __init__(
        self, tls: DataTls, directory: Path, post: Callable[[Received | Unsent], object], patience_s: float
    ) -> None:
        self._receiver = Receiver(tls, directory, patience_s, self._end)
        self._post = post
        self._sources: dict[str, _Source] = {}
        self._pulls: dict[int, Pull] = {}
        self._lock = threading.Lock()
        """Held while a pull is begun, stopped or finished."""

    def pull(self, into: PullInto) -> None:
        """Begin a pull. It takes the place of one of the same number."""
        order = into.order
        self.stop(order.transfer)
        pull = Pull(order, Path(into.room))
        with self._lock:
            self._pulls[order.transfer] = pull
        source = self._sources.setdefault(order.address, _Source())
        with source.more:
            source.waiting.append(pull)
            source.more.notify()
            if source.idle >= len(source.waiting) or source.threads >= MOST_CONNECTIONS:
                return
            source.threads += 1
        try:
            threading.Thread(target=self._serve_source, args=(source, order.address), daemon=True).start()
        except RuntimeError:  # no thread to be had: another takes it, or there is none
            with source.more:
                source.threads -= 1
                taken = source.threads > 0 or pull not in source.waiting
                if not taken:
                    source.waiting.remove(pull)
            if not taken:
                self._end(pull, Unsent(order.transfer, "this machine has no thread for it"))

    def stop(self, transfer: int) -> None:
        """End a pull, of which nothing is said any more. What has come of it stays, for another to go on with."""
        with self._lock:
            pull = self._pulls.pop(transfer, None)
        if pull is not None:
            pull.stop()

    def progress(self) -> Pulled | None:
        """Return how far the pulls are that have come on since the last call; None if there are none."""
        with self._lock:
            moved = [pull for pull in self._pulls.values() if pull.at > pull.told]
        for pull in moved:
            pull.told = pull.at
        return Pulled([pull.order.transfer for pull in moved], [pull.told for pull in moved]) if moved else None

    @property
    def busy(self) -> bool:
        """True while there are pulls."""
        return bool(self._pulls)

    # --- in the thread of a connection -------------------------------------------------------------------------------

    def _serve_source(self, source: _Source, address: str) -> None:
        connection: ssl.SSLSocket | None = None
        try:
            while (pull := source.next()) is not None:
                connection = self._perform(pull, source, address, connection)
        finally:
            if connection is not None:
                connection.close()

    def _perform(
        self, pull: Pull, source: _Source, address: str, connection: ssl.SSLSocket | None
    ) -> ssl.SSLSocket | None:
        """Do all that a pull takes; return the connection if it can serve another."""
        order = pull.order
        try:
            part = self._receiver.open(pull)
        except OSError as error:
            self._end(pull, Unsent(order.transfer, f"it cannot be written: {error.strerror or error}"))
            return connection
        pull.at = part.at
        try:
            return self._receiver.receive(pull, part, address, connection)
        except UnwritableError as error:
            self._end(pull, Unsent(order.transfer, f"it cannot be written: {error.__cause__}"))
        except (OSError, ValueError) as error:
            self._unreachable(
                pull, source, part.at, f"{address} cannot be reached: {str(error) or type(error).__name__}"
            )
        except GrainlikeError as error:
            self._unreachable(pull, source, part.at, f"{address}: {error}")
        finally:
            part.close()
        return None

    def _unreachable(self, pull: Pull, source: _Source, at: int, why: str) -> None:
        """End a pull whose source did not answer, and those that wait for it: it would hold up each as long."""
        if pull.stopped:
            return  # cut by the stop itself
        self._end(pull, Unsent(pull.order.transfer, why, at=at, unreachable=True))
        for other in source.take_all():
            self._end(other, Unsent(other.order.transfer, why, at=other.order.at, unreachable=True))

    def _end(self, pull: Pull, message: Unsent | Received) -> None:
        with self._lock:
            if self._pulls.get(pull.order.transfer) is not pull:
                return  # it was stopped
            del self._pulls[pull.order.transfer]
        self._post(message)


class _Source:
    """Pulls that wait for one data server, and the threads that perform them."""

    def __init__(self) -> None:
        self.more = threading.Condition()
        self.waiting: deque[Pull] = deque()
        self.threads = self.idle = 0
        """Threads, each with a connection; and those of them that wait for a pull."""

    def next(self) -> Pull | None:
        """Return the next pull, for a thread that has done one; None when it is to end."""
        with self.more:
            self.idle += 1
            came = self.more.wait_for(lambda: self.waiting, IDLE_S)
            self.idle -= 1
            if not came:
                self.threads -= 1
                return None
            return self.waiting.popleft()

    def take_all(self) -> list[Pull]:
        """Return the pulls that wait, and have none wait any more."""
        with self.more:
            waiting = list(self.waiting)
            self.waiting.clear()
            return waiting
