"""Memoisation: calls of functions with `cache=` are looked up on disk before they run, and what they give is kept.

Files are read and written, and arguments digested, in threads of its own; the event loop continues meanwhile. A
result is on disk before its awaiters get it, so that they cannot change it before it is stored.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import anyio.to_thread

from grainlike.graph import Node, Record

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from grainlike.cache._lookup import Lookup
    from grainlike.cache._store import StoredResult

__all__ = ["CachedRecord", "ResultCache"]

logger = logging.getLogger("grainlike")

_THREADS = 4


class CacheListener(Protocol):
    """Receiver of results that were found."""

    def succeeded(self, node: Node, value: object) -> None: ...
    def failed(self, node: Node, error: BaseException) -> None: ...
    def pump(self) -> None: ...


class CachedRecord(Record):
    """Record of a call that did not run: its value was kept."""

    __slots__ = ("words",)

    def __init__(self, words: str) -> None:
        self.words = words


class ResultCache:
    """The calls of one engine. `later` runs something in its event loop, from any thread."""

    def __init__(self, outcomes: CacheListener, later: Callable[[Callable[[], None]], None]) -> None:
        self._outcomes = outcomes
        self._later = later
        self._searches: dict[Node, Lookup] = {}
        self._threads: ThreadPoolExecutor | None = None

    def wants_to_look(self, node: Node) -> bool:
        """Return True if this call is to be looked up and was not."""
        return node.function.options.cache is not None and node not in self._searches

    def look(self, node: Node, go_on: Callable[[], None]) -> None:
        """Look for the result of `node`, whose inputs are there; `go_on` when it has to run."""
        from grainlike.cache._lookup import Lookup, find, key_of  # few programs keep results

        search = self._searches[node] = Lookup()
        args, kwargs = node.arguments()

        def seek() -> None:
            try:
                search.key = key_of(node.function, args, kwargs)
                found = None if search.key is None else find(search)
            except BaseException as error:  # noqa: BLE001 - the user's objects may raise anything, and somebody waits
                self._later(partial(self._fail, node, error))
            else:
                self._later(go_on if found is None else partial(self._recall, node, *found))

        self._in_thread(seek)

    def wants_to_keep(self, node: Node) -> bool:
        """Return True if the value that this call has just given is to be stored first."""
        search = self._searches.get(node)
        return search is not None and search.key is not None and not search.kept

    def keep(self, node: Node, value: Any) -> None:
        """Store the value, then report it again."""
        from grainlike.cache._store import ResultStore, results_directory

        search = self._searches[node]
        search.kept = True
        assert search.key is not None
        key = search.key

        def write() -> None:
            try:
                ResultStore(results_directory()).put(key, value)
            except BaseException as error:  # noqa: BLE001 - the value is there all the same, and somebody waits
                logger.warning("the result of %s is not kept: %s", node.function.name, error)
            self._later(partial(self._succeed, node, value))

        self._in_thread(write)

    def forget(self, node: Node) -> None:
        """Drop the state of a call that has ended."""
        self._searches.pop(node, None)

    def words(self, node: Node) -> str:
        """Return text on this call for `info`: that it was found, or why it runs; empty for one without `cache=`."""
        if node.function.options.cache is None:
            return ""
        if isinstance(node.record, CachedRecord):
            return node.record.words
        search = self._searches.get(node)
        if search is not None:
            return search.words
        if not node.finished:
            return ""
        return "It did not run." if node.record is None else "It ran: its result had not been kept."

    async def aclose(self) -> None:
        """Wait until pending results are written."""
        threads, self._threads = self._threads, None
        if threads is not None:
            await anyio.to_thread.run_sync(threads.shutdown)

    def _recall(self, node: Node, kept: StoredResult, value: object) -> None:
        if not node.finished:
            age = _age(time.time() - kept.created)
            node.record = CachedRecord(f"It did not run: version {kept.version!r} of its result was kept {age} ago.")
            self._searches[node].kept = True
            self._succeed(node, value)

    def _succeed(self, node: Node, value: object) -> None:
        self._outcomes.succeeded(node, value)
        self._outcomes.pump()

    def _fail(self, node: Node, error: BaseException) -> None:
        self._outcomes.failed(node, error)
        self._outcomes.pump()

    def _in_thread(self, work: Callable[[], None]) -> None:
        if self._threads is None:
            from concurrent.futures import ThreadPoolExecutor

            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="grainlike cache")
        self._threads.submit(work)


def _age(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
