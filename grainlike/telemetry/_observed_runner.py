"""`ObservedRunner`: stands between an engine and what runs its jobs, and tells observers of each job."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from weakref import WeakKeyDictionary

from grainlike.calls import packed_texts, surrounded
from grainlike.engine import Engine, JobRunner
from grainlike.errors import JobCancelledError, JobTimeoutError
from grainlike.graph import Function, Node
from grainlike.jobs import Job
from grainlike.telemetry._observers import CallEnded, CallObserver, CallSubmitted

__all__ = ["ObservedRunner"]

logger = logging.getLogger("grainlike")


class ObservedRunner:
    """Implements the engine's `JobRunner` by `runner`, and tells `observers` of its calls.

    `hands_on` is true where `runner` takes the contexts of calls from the engine itself.
    """

    def __init__(
        self, runner: JobRunner, engine: Engine, observers: Sequence[CallObserver], *, hands_on: bool = False
    ) -> None:
        self._runner = runner
        self._engine = engine
        self._observers = observers
        self._surroundings = [type(observer).surrounding for observer in observers]
        self._hands_on = hands_on
        self._number = 0
        self._calls: dict[Node, CallSubmitted] = {}
        self._inside: WeakKeyDictionary[Function, Function] = WeakKeyDictionary()
        self._by_itself: WeakKeyDictionary[Function, Function] = WeakKeyDictionary()
        self._told: set[tuple[int, str]] = set()
        self.detached: Collection[Node] = ()
        """Calls that go on elsewhere when they are cancelled here."""
        engine.keeps_contexts = True
        engine.ended = self._ended

    def submit(self, nodes: Sequence[Node]) -> None:
        """Submit these calls to workers."""
        for node in nodes:
            self._submitted(node)
        self._runner.submit(nodes)

    def cancel(self, nodes: Iterable[Node], *, skipped: bool = False) -> None:
        """Cancel calls that are wanted no more."""
        nodes = list(nodes)
        for node in nodes:
            call = self._calls.pop(node, None)
            if call is not None:
                self._tell_end(call, node, self._unwanted(node, skipped=skipped), None)
        self._runner.cancel(nodes, skipped=skipped)

    def _unwanted(self, node: Node, *, skipped: bool) -> str:
        """Return how a call ends that is cancelled."""
        if node in self.detached:
            return "detached"
        job = node.record if isinstance(node.record, Job) else None
        began = job is not None and job.began is not None
        return "skipped" if skipped and not began else "cancelled"

    def closed(self) -> None:
        """Tell observers that nothing follows."""
        for observer in self._observers:
            self._tell(observer, "closed", observer.closed)

    def _submitted(self, node: Node) -> None:
        context = self._engine.take_context(node)
        if self._hands_on:
            self._engine.keep_context(node, context)
        self._number += 1
        function = node.function
        call = CallSubmitted(
            number=self._number,
            name=function.name,
            function=function.callable,
            request=str(node.request),
            at=time.time(),
        )
        self._calls[node] = call
        texts = [
            self._tell(observer, "submitted", partial(context.run, partial(_text_of, observer, call))) or ""
            for observer in self._observers
        ]
        if not function.is_stream:
            self._replace(node, texts)

    def _replace(self, node: Node, texts: Sequence[str]) -> None:
        """Have a call sent by itself, rather than in a chain with calls that no observer would be told of, and with the
        texts for its surroundings. An `amap`'s many calls in one have none: their arguments are packed already.
        """
        try:
            text = "" if node.function.many or not any(texts) else packed_texts(texts)
        except ValueError as error:
            logger.warning("%s", error)
            text = ""
        if text:
            node.call_with(self._surrounded(node.function), text)
        else:
            node.function = self._alone(node.function)

    def _surrounded(self, function: Function) -> Function:
        known = self._inside.get(function)
        if known is None:
            inside = surrounded(function.callable, self._surroundings, is_async=function.is_async)
            known = self._inside[function] = Function(inside, function.options, name=function.name, alone=True)
        return known

    def _alone(self, function: Function) -> Function:
        known = self._by_itself.get(function)
        if known is None:
            known = Function(function.callable, function.options, name=function.name, many=function.many, alone=True)
            self._by_itself[function] = known
        return known

    def _ended(self, node: Node, error: BaseException | None) -> None:
        call = self._calls.pop(node, None)
        if call is not None:
            self._tell_end(call, node, _outcome(error), error)

    def _tell_end(self, call: CallSubmitted, node: Node, outcome: str, error: BaseException | None) -> None:
        now, ahead = time.time(), time.time() - time.monotonic()
        job = node.record if isinstance(node.record, Job) else None
        ended = None if job is None else job.ended
        usage = None if job is None else job.usage
        # In order, whatever was done to the clock, or came between two looks at it.
        began_at = None if job is None or job.began is None else max(call.at, job.began + ahead)
        ended_at = max(call.at if began_at is None else began_at, now if ended is None else ended + ahead)
        end = CallEnded(
            call=call,
            outcome=outcome,
            error=error,
            at=ended_at,
            job=0 if job is None else job.id,
            worker="" if job is None else job.worker or "",
            slots="" if job is None else job.slots or "",
            attempt=0 if job is None else job.attempt,
            began_at=began_at,
            cpu_s=None if usage is None else usage.cpu_s,
            peak_memory=None if usage is None else usage.peak_rss,
        )
        for observer in self._observers:
            self._tell(observer, "ended", partial(observer.ended, end))

    def _tell(self, observer: CallObserver, method: str, call: Callable[[], str | None]) -> str | None:
        try:
            return call()
        # An observer's method does not wait, so no cancellation of the task around it can come out of it: whatever
        # does is the observer's own, and must not end the job or the executor.
        except BaseException:
            told = (id(observer), method)  # an observer may be equal to others, and need have no hash
            if told not in self._told:
                self._told.add(told)
                words = "%s of the observer %s has failed; if it does so again, that is not logged"
                logger.exception(words, method, _name_of(observer))
            return None


def _text_of(observer: CallObserver, call: CallSubmitted) -> str:
    """Return the text that an observer gives for a call, empty for none.

    Raises:
        TypeError: it is no text.
        UnicodeEncodeError: it cannot be sent.
    """
    text: object = observer.submitted(call)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise TypeError(f"`submitted` returns a text or None, not {type(text).__name__}")
    text.encode()
    return str(text)


def _name_of(observer: CallObserver) -> str:
    """Return the `repr` of an observer; its type's where it has none."""
    try:
        return repr(observer)
    except Exception:  # noqa: BLE001 - it is the observer's code, too
        return object.__repr__(observer)


def _outcome(error: BaseException | None) -> str:
    """Return how a call ended, by its error: by its type, as `isinstance` would ask a user's object."""
    if error is None:
        return "succeeded"
    if issubclass(type(error), JobTimeoutError):
        return "timed_out"
    return "cancelled" if issubclass(type(error), JobCancelledError) else "failed"
