"""Spans of jobs, as OpenTelemetry's own exporter in memory sees them: embedded, and over a head."""

import os
import subprocess
import sys
from itertools import pairwise

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode
from otel_calls import ids, ids_in_a_process, parent_in_a_process, slow

from grainlike import Cores, Executor, connect, delayed, gather, start
from grainlike.errors import JobTimeoutError
from grainlike.telemetry.otel import OpenTelemetry


class Setup:
    """A provider with its exporter, and the observer of it."""

    def __init__(self, **options):
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(**options)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("tests")
        self.observer = OpenTelemetry(self.provider)

    def spans(self, name):
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def below(self, span):
        found = self.exporter.get_finished_spans()
        return {one.name: one for one in found if one.parent and one.parent.span_id == span.context.span_id}


@pytest.fixture
def otel():
    return Setup()


@delayed
async def ids_in_a_coroutine():
    return ids()


@delayed
async def bad():
    raise ValueError("unlucky")


@pytest.fixture
def private_state(tmp_path, monkeypatch):
    """Access files of a test are its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


async def check_a_job(otel):
    """Await a job in a span, and hold its spans to what is known of it."""
    with otel.tracer.start_as_current_span("sweep") as sweep:
        outside = sweep.get_span_context()
        found = await gather([(ids_in_a_process @ Cores(1))(x) for x in range(3)])
    spans = otel.spans("ids_in_a_process")
    assert len(spans) == 3
    assert sorted(found) == sorted((span.context.trace_id, span.context.span_id) for span in spans)
    for span in spans:
        assert (span.context.trace_id, span.parent.span_id) == (outside.trace_id, outside.span_id)
        assert span.status.status_code is StatusCode.UNSET
        attributes = dict(span.attributes)
        assert attributes.pop("code.function.name") == "otel_calls.ids_in_a_process"
        assert attributes.pop("grainlike.job") > 0
        assert attributes.pop("grainlike.cpu_seconds") >= 0
        assert attributes.pop("grainlike.peak_memory_bytes") > 0
        assert attributes.pop("grainlike.slots").startswith("cores=[")
        assert attributes == {
            "grainlike.request": "cores=1",
            "grainlike.outcome": "succeeded",
            "grainlike.worker": "local",
            "grainlike.attempt": 1,
        }
        stages = otel.below(span)
        assert stages.keys() == {"queued", "run"}
        assert span.start_time == stages["queued"].start_time
        assert stages["queued"].start_time <= stages["queued"].end_time == stages["run"].start_time
        assert stages["run"].start_time <= stages["run"].end_time == span.end_time


@pytest.mark.anyio
async def test_a_job_is_a_span_and_that_of_its_code(otel):
    async with Executor(local=Cores(2), observers=[otel.observer]):
        await check_a_job(otel)


@pytest.mark.asyncio
async def test_over_a_head_it_is_the_same(otel, private_state):
    head = Executor(local=Cores(2), listen="tcp://127.0.0.1:0")
    async with head, connect(observers=[otel.observer]):
        await check_a_job(otel)


@pytest.mark.anyio
async def test_spans_that_a_job_makes_are_below_its_own(otel):
    TRACERS.append(otel.tracer)
    async with Executor(local=Cores(1), observers=[otel.observer]):
        assert await (made_inside @ Cores(1))() != (0, 0)
    [job] = otel.spans("made_inside")
    assert otel.below(job).keys() == {"queued", "run", "inside"}
    assert otel.below(job)["inside"].context.trace_id == job.context.trace_id


TRACERS = []
"""Tracers of this process, in which coroutines of the embedded worker run, too."""


@delayed
async def made_inside():
    with TRACERS[-1].start_as_current_span("inside"):
        return ids()


@pytest.mark.anyio
async def test_each_call_is_below_the_span_in_which_it_was_started(otel):
    async with Executor(local=Cores(1), observers=[otel.observer]):
        with otel.tracer.start_as_current_span("first"):
            inner = (ids_in_a_process @ Cores(1))(1)
            outer = (ids_in_a_process @ Cores(1))(inner)  # it is submitted later, when `inner` has ended
            await outer
        await (ids_in_a_coroutine @ Cores(1))()
    [first] = otel.spans("first")
    assert [span.parent.span_id for span in otel.spans("ids_in_a_process")] == [first.context.span_id] * 2
    [last] = otel.spans("ids_in_a_coroutine")
    assert last.parent is None


@pytest.mark.anyio
async def test_a_failure_is_an_error_with_the_exception(otel):
    async with Executor(local=Cores(1), observers=[otel.observer]):
        with pytest.raises(ValueError, match="unlucky"):
            await (bad @ Cores(1))()
        with pytest.raises(JobTimeoutError):
            await (slow @ Cores(1))()
    [span] = otel.spans("bad")
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "ValueError: unlucky"
    assert (span.attributes["error.type"], span.attributes["grainlike.outcome"]) == ("ValueError", "failed")
    [event] = span.events
    assert event.name == "exception"
    assert (event.attributes["exception.type"], event.attributes["exception.message"]) == ("ValueError", "unlucky")
    assert "raise ValueError" in event.attributes["exception.stacktrace"]
    [span] = otel.spans("slow")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["grainlike.outcome"] == "timed_out"


class UnspeakableError(Exception):
    def __str__(self):
        raise RuntimeError("no words")


@delayed
async def unspeakable():
    raise UnspeakableError


@pytest.mark.anyio
async def test_an_error_without_words_ends_its_span_all_the_same(otel):
    async with Executor(local=Cores(1), observers=[otel.observer]):
        with pytest.raises(UnspeakableError):
            await (unspeakable @ Cores(1))()
        [span] = otel.spans("unspeakable")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == f"{__name__}.UnspeakableError"


@pytest.mark.anyio
async def test_a_trace_that_is_not_sampled_goes_on_so_inside_of_jobs():
    otel = Setup(sampler=ALWAYS_OFF)
    async with Executor(local=Cores(1), observers=[otel.observer]):
        trace_id, _ = await (ids_in_a_process @ Cores(1))()
    assert trace_id != 0
    assert otel.exporter.get_finished_spans() == ()


def test_the_entry_point_switches_it_on():
    program = """
from grainlike import Cores, delayed, run
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

@delayed
def square(x):
    return x * x

async def main():
    return await (square @ Cores(1))(3)

if __name__ == "__main__":
    exporter = InMemorySpanExporter()
    trace.set_tracer_provider(TracerProvider())
    trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(exporter))
    print(run(main, local=Cores(1)), sorted(span.name for span in exporter.get_finished_spans()))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "GRAINLIKE_OBSERVERS": "otel"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "9 ['queued', 'run', 'square']\n", done.stderr


@delayed
async def parent_in_a_coroutine(deep):
    if deep:
        return [ids(), *await (parent_in_a_coroutine @ Cores(1))(deep - 1)]
    with pytest.raises(ValueError, match="unlucky"):
        await (bad @ Cores(1))()
    return [ids()]


@pytest.mark.anyio
async def test_a_job_of_a_job_is_a_span_below_it(otel, monkeypatch):
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", otel.provider)  # the program's, in whose event loop the jobs run
    async with Executor(local=Cores(1), observers=[otel.observer]):
        found = await (parent_in_a_coroutine @ Cores(1))(2)
    spans = otel.spans("parent_in_a_coroutine")
    assert sorted(found) == sorted((span.context.trace_id, span.context.span_id) for span in spans)
    by_id = {span.context.span_id: span for span in spans}
    for (_, above), (_, below) in pairwise(found):
        assert by_id[below].parent.span_id == above
        assert by_id[below].attributes["grainlike.job"] > by_id[above].attributes["grainlike.job"]
    [failed] = otel.spans("bad")
    assert failed.parent.span_id == found[-1][1]
    assert failed.status.status_code is StatusCode.ERROR
    assert otel.below(by_id[found[1][1]]).keys() == {"queued", "run", "parent_in_a_coroutine"}


@delayed
async def leaves_a_job():
    start((sleeps @ Cores(1))())


@delayed
async def sleeps():
    await anyio.sleep_forever()


@pytest.mark.anyio
async def test_the_span_of_a_job_that_its_parent_leaves_behind_ends_with_that(otel, monkeypatch):
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", otel.provider)
    async with Executor(local=Cores(1), observers=[otel.observer]):
        await (leaves_a_job @ Cores(1))()
        assert len(otel.spans("sleeps")) == 1


@pytest.mark.anyio
async def test_where_no_spans_are_exported_jobs_of_jobs_have_the_context_of_their_parent(otel):
    async with Executor(local=Cores(1), observers=[otel.observer]):
        own, below = await (parent_in_a_process @ Cores(1))()
    [span] = otel.spans("parent_in_a_process")
    assert own == below == (span.context.trace_id, span.context.span_id)
