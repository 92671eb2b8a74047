"""Spans of jobs for OpenTelemetry: the observer `"otel"`, with the extra `grainlike[otel]`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from grainlike._version import __version__
from grainlike.telemetry._observers import CallEnded, CallObserver, CallSubmitted

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider
    from opentelemetry.util.types import AttributeValue

    from grainlike.calls import Surrounding
    from grainlike.engine import Engine, JobRunner
    from grainlike.telemetry._observed_runner import ObservedRunner

__all__ = ["OpenTelemetry"]

_S = 1_000_000_000
"""Nanoseconds in a second."""


@contextmanager
def _propagated(text: str) -> Iterator[OpenTelemetry | None]:
    """Context manager: be in the context that came with a job, as JSON: the carrier of OpenTelemetry's propagators. It
    gives an observer of the calls that the job makes.

    A worker without OpenTelemetry makes no spans either: there it does nothing.
    """
    try:
        from opentelemetry import context, propagate
    except ImportError:
        yield None
        return
    token = context.attach(propagate.extract(json.loads(text)))
    try:
        yield OpenTelemetry()
    finally:
        context.detach(token)


class OpenTelemetry(CallObserver):
    """Observer that makes spans of jobs, in `provider` or the one that is set for the program.

    A job is a span, from its submission to its end, below the span that was current where its call was awaited or
    started. Below it are `queued`, until its last attempt began, and `run`. The job's code runs with the job's span as
    current one, by the propagators that are set: so its own spans are below that, if its process exports any.

    Raises:
        ImportError: OpenTelemetry is not installed.

    Example::

        async with Executor(observers=["otel"]):
            with tracer.start_as_current_span("sweep"):
                await gather(simulate(seed) for seed in range(100))
    """

    surrounding: ClassVar[Surrounding | None] = _propagated

    def __init__(self, provider: TracerProvider | None = None) -> None:
        try:
            from opentelemetry import trace
        except ImportError as error:
            words = "the observer 'otel' takes OpenTelemetry: pip install 'grainlike[otel]'"
            raise ImportError(words, name=error.name) from error
        self._tracer = trace.get_tracer("grainlike", __version__, tracer_provider=provider)
        self._spans: dict[int, Span] = {}

    def submitted(self, call: CallSubmitted) -> str | None:
        """Begin the span of a job; return what makes its code's spans children of that."""
        from opentelemetry import propagate, trace

        module, name = getattr(call.function, "__module__", None), getattr(call.function, "__qualname__", call.name)
        span = self._tracer.start_span(
            call.name,
            start_time=_ns(call.at),
            attributes={
                "code.function.name": f"{module}.{name}" if module else name,
                "grainlike.request": call.request,
            },
        )
        self._spans[call.number] = span
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span))
        return json.dumps(carrier) if carrier else None

    def observing(self, runner: JobRunner, engine: Engine, observers: Sequence[CallObserver]) -> ObservedRunner:
        """Return what makes spans of the calls of a job, as of `context.OwnCallsObserver`."""
        from grainlike.telemetry._observed_runner import ObservedRunner

        return ObservedRunner(runner, engine, observers)

    def ended(self, call: CallEnded) -> None:
        """End the span of a job."""
        span = self._spans.pop(call.call.number)
        try:
            if span.is_recording():
                span.set_attributes(_attributes(call))
                self._add_stages(span, call)
                self._add_error(span, call)
        finally:  # the error is the user's, and may raise when it is asked for its text
            span.end(_ns(max(call.at, call.call.at)))

    def _add_stages(self, span: Span, call: CallEnded) -> None:
        from opentelemetry import trace

        inside = trace.set_span_in_context(span)
        began = call.at if call.began_at is None else max(call.began_at, call.call.at)
        stages = [("queued", call.call.at, began), ("run", began, call.at)]
        for stage, begun, ended in stages[: 1 if call.began_at is None else 2]:
            self._tracer.start_span(stage, inside, start_time=_ns(begun)).end(_ns(max(begun, ended)))

    def _add_error(self, span: Span, call: CallEnded) -> None:
        from opentelemetry.trace import Status, StatusCode

        if call.outcome in ("failed", "timed_out"):
            span.set_status(Status(StatusCode.ERROR, type(call.error).__name__))
        if call.error is not None:
            span.set_attribute("error.type", _type_of(call.error))
            span.record_exception(call.error, timestamp=_ns(call.at))
            if call.outcome in ("failed", "timed_out"):
                span.set_status(Status(StatusCode.ERROR, f"{type(call.error).__name__}: {call.error}"))

    def closed(self) -> None:
        """End the spans that are left."""
        for span in self._spans.values():
            span.end()
        self._spans.clear()


def _attributes(call: CallEnded) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue | None] = {
        "grainlike.outcome": call.outcome,
        "grainlike.job": call.job or None,
        "grainlike.worker": call.worker or None,
        "grainlike.slots": call.slots or None,
        "grainlike.attempt": call.attempt or None,
        "grainlike.cpu_seconds": call.cpu_s,
        "grainlike.peak_memory_bytes": call.peak_memory,
    }
    return {name: value for name, value in found.items() if value is not None}


def _type_of(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _ns(at: float) -> int:
    return int(at * _S)
