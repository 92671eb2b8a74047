"""Observers of a program's jobs: what they are told, embedded and over a head, and what their failures change."""

import asyncio
import importlib.metadata
import itertools
import os
import sys
import time
from dataclasses import dataclass

import anyio
import pytest
from observed_calls import MARK, mark, plain_variable, square, swallowing, variable, with_variable
from waiting import until

from grainlike import Cores, Executor, amap, cancel, connect, delayed, gather, start
from grainlike.backends import ThreadBackend
from grainlike.errors import JobCancelledError, JobTimeoutError
from grainlike.telemetry import CallObserver, find_observers


@delayed
async def bad():
    raise ValueError("unlucky")


@delayed(timeout=0.05)
async def slow():
    await anyio.sleep_forever()


@delayed
async def forever():
    await anyio.sleep_forever()


gates = []
"""Gates that `through_a_gate` waits for: coroutines run in the loop of the program that is the head."""


@delayed
async def through_a_gate():
    await gates[-1].wait()
    return "through"


@delayed
async def counting_up():
    for number in itertools.count():
        yield number


class Told(CallObserver):
    def __init__(self):
        self.submissions, self.ends, self.over = [], [], 0

    def submitted(self, call):
        self.submissions.append(call)

    def ended(self, call):
        self.ends.append(call)

    def closed(self):
        self.over += 1

    def named(self, name):
        return [end for end in self.ends if end.call.name == name]


@pytest.fixture
def private_state(tmp_path, monkeypatch):
    """Access files of a test are its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.anyio
async def test_an_observer_learns_of_every_end():
    told = Told()
    async with Executor(local=Cores(2), observers=[told]):
        chained = square @ Cores(1)
        assert await gather([chained(i, offset=1) for i in range(20)]) == [i * i + 1 for i in range(20)]
        for _ in range(3):
            assert await chained(chained(chained(2))) == 256  # as a chain without an observer
        with pytest.raises(ValueError, match="unlucky"):
            await (bad @ Cores(1))()
        with pytest.raises(JobTimeoutError):
            await (slow @ Cores(1))()
        running = start((forever @ Cores(1))())
        after = start((square @ Cores(1))(running))
        cancel(running)
        for waiting in (running, after):
            with pytest.raises(JobCancelledError):
                await waiting
    assert told.over == 1
    assert [call.number for call in told.submissions] == list(range(1, len(told.submissions) + 1))
    assert sorted(end.call.number for end in told.ends) == [call.number for call in told.submissions]
    assert len(told.named("square")) == 29
    for end in told.named("square"):
        assert (end.outcome, end.error, end.worker, end.attempt) == ("succeeded", None, "local", 1)
        assert end.call.at <= end.began_at <= end.at
        assert end.slots in ("cores=[0]", "cores=[1]")
        assert end.cpu_s >= 0
        assert end.peak_memory > 0
        assert end.call.function is square.function.callable
        assert end.call.request == "cores=1"
    [end] = told.named("bad")
    assert (end.outcome, type(end.error)) == ("failed", ValueError)
    [end] = told.named("slow")
    assert (end.outcome, type(end.error)) == ("timed_out", JobTimeoutError)
    [end] = told.named("forever")
    assert (end.outcome, end.error) == ("cancelled", None)


@pytest.mark.anyio
@pytest.mark.parametrize("nth", range(1, 7))
async def test_an_observer_may_cancel_what_has_not_run_when_it_hears_of_an_end(nth):
    """With this end, the head assigns the next of them."""

    class Stops(Told):
        def ended(self, call):
            super().ended(call)
            if call.call.number == nth:
                for value_ in made:
                    cancel(value_)

    told = Stops()
    made = [(square @ Cores(1))(i) for i in range(8)]
    async with Executor(local=Cores(1), observers=[told]) as executor:
        ended = await gather(made, return_exceptions=True)
        assert await (square @ Cores(1))(9) == 81
        totals = executor.report()
        outcomes = [job.outcome for job in await executor.history()]
    cancelled = [type(value) is JobCancelledError for value in ended]
    assert cancelled[nth - 1]  # as its value was not there yet
    assert [value for value, gone in zip(ended, cancelled, strict=True) if not gone] == [
        i * i for i, gone in enumerate(cancelled) if not gone
    ]
    assert sorted(end.call.number for end in told.ends) == list(range(1, 10))
    assert (totals.succeeded, totals.cancelled) == (outcomes.count("succeeded"), outcomes.count("cancelled"))
    assert totals.succeeded + totals.cancelled == 9


@pytest.mark.anyio
async def test_moments_of_a_call_are_in_order_though_the_clock_is_set_back(monkeypatch):
    wall = time.time

    class SetsBack(Told):
        def submitted(self, call):
            super().submitted(call)
            monkeypatch.setattr(time, "time", lambda: wall() - 3600)

    told = SetsBack()
    async with Executor(local=Cores(1), observers=[told]):
        assert await (square @ Cores(1))(3) == 9
    [end] = told.ends
    assert end.call.at <= end.began_at <= end.at


@pytest.mark.anyio
async def test_what_never_starts_as_its_graph_has_failed_is_skipped():
    told = Told()
    async with Executor(local=Cores(1), observers=[told]):
        with pytest.raises(ValueError, match="unlucky"):
            await gather((bad @ Cores(1))(), *[(forever @ Cores(1))() for _ in range(3)])
    outcomes = [end.outcome for end in told.named("forever")]
    assert outcomes.count("skipped") >= 2
    assert set(outcomes) <= {"skipped", "cancelled"}


class Surrounds(Told):
    surrounding = with_variable

    def submitted(self, call):
        super().submitted(call)
        return f"call {call.number}"


@pytest.mark.anyio
async def test_an_observer_surrounds_the_code_of_jobs_where_they_run():
    async with Executor(local=Cores(1), observers=[Told(), Surrounds()]):
        # The first is known by name alone, as its decorator took its place.
        assert await (plain_variable @ Cores(1))("OBSERVED") == "call 1"
        assert await (plain_variable @ Cores(1))(name="OBSERVED") == "call 2"
        assert await (variable @ Cores(1))("OBSERVED") == "call 3"
        assert await (delayed(lambda: os.environ.get("OBSERVED")) @ Cores(1))() == "call 4"
        values = [value async for value in amap(square @ Cores(1), range(5))]
        assert sorted(values) == [0, 1, 4, 9, 16]


class Swallows(Surrounds):
    surrounding = swallowing


@pytest.mark.anyio
async def test_surroundings_can_not_hide_an_error():
    async with Executor(local=Cores(1), observers=[Swallows()]):
        with pytest.raises(ValueError, match="unlucky"):
            await (bad @ Cores(1))()


class Broken(Told):
    surrounding = with_variable

    def submitted(self, call):
        super().submitted(call)
        raise RuntimeError("cannot submit")

    def ended(self, call):
        super().ended(call)
        raise RuntimeError("cannot end")

    def closed(self):
        raise RuntimeError("cannot close")


@pytest.mark.anyio
async def test_an_observer_that_fails_changes_nothing_and_is_logged_once(caplog):
    broken, told = Broken(), Told()
    async with Executor(local=Cores(1), observers=[broken, told]):
        assert await gather([(square @ Cores(1))(i) for i in range(5)]) == [0, 1, 4, 9, 16]
    assert len(broken.ends) == len(told.ends) == 5
    said = [record.getMessage().split(" of ")[0] for record in caplog.records]
    assert said == ["submitted", "ended", "closed"]


@dataclass
class Unhashable(Broken):
    """Equal to others of its type, and without a hash, as data classes are."""

    def __post_init__(self):
        super().__init__()


@pytest.mark.anyio
async def test_an_observer_need_have_no_hash_and_may_be_equal_to_another(caplog):
    async with Executor(local=Cores(1), observers=[Unhashable(), Unhashable()]):
        assert await gather([(square @ Cores(1))(i) for i in range(3)]) == [0, 1, 4]
    said = [record.getMessage().split(" of ")[0] for record in caplog.records]
    assert sorted(said) == ["closed", "closed", "ended", "ended", "submitted", "submitted"]


class Raises(Told):
    def __init__(self, error):
        super().__init__()
        self._error = error

    def submitted(self, call):
        super().submitted(call)
        raise self._error

    def ended(self, call):
        super().ended(call)
        raise self._error

    def closed(self):
        raise self._error


@pytest.mark.anyio
@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(3), KeyboardInterrupt(), BaseException()])
async def test_what_an_observer_raises_is_its_own_whatever_it_is(error, caplog):
    broken, told = Raises(error), Told()
    async with Executor(local=Cores(1), observers=[broken, told]):
        assert await gather([(square @ Cores(1))(i) for i in range(3)]) == [0, 1, 4]
    assert len(broken.ends) == len(told.ends) == 3
    assert told.over == 1
    said = [record.getMessage().split(" of ")[0] for record in caplog.records]
    assert said == ["submitted", "ended", "closed"]


class Gives(Told):
    surrounding = with_variable

    def __init__(self, text):
        super().__init__()
        self._text = text

    def submitted(self, call):
        return self._text


@pytest.mark.anyio
@pytest.mark.parametrize("text", [5, b"x", ["x"], "\udcff"])
async def test_what_is_no_text_for_a_surrounding_is_an_error_of_the_observer(text, caplog):
    async with Executor(local=Cores(1), observers=[Gives(text)]):
        assert await gather([(variable @ Cores(1))("OBSERVED") for _ in range(2)]) == [None, None]
    assert [record.getMessage().split(" of ")[0] for record in caplog.records] == ["submitted"]


@pytest.mark.anyio
async def test_an_error_that_nobody_sees_is_logged_all_the_same(caplog):
    async with Executor(local=Cores(1), observers=[Told()]) as executor:
        start((bad @ Cores(1))())
        await until(lambda: executor.report().failed)
        await until(lambda: "nobody has seen it" in caplog.text)


@pytest.mark.asyncio
async def test_over_a_head_an_observer_is_told_of_its_own_programs_jobs(private_state):
    theirs, ours = Told(), Surrounds()
    async with Executor(local=Cores(1), listen="tcp://127.0.0.1:0", observers=[theirs]), connect(observers=[ours]):
        assert await (plain_variable @ Cores(1))("OBSERVED") == "call 1"
        with pytest.raises(ValueError, match="unlucky"):
            await (bad @ Cores(1))()
        cancel(start((forever @ Cores(1))()))
    assert theirs.submissions == []
    assert [(end.call.name, end.outcome) for end in ours.ends] == [
        ("plain_variable", "succeeded"),
        ("bad", "failed"),
        ("forever", "cancelled"),
    ]
    assert ours.ends[0].worker == "local"
    assert ours.ends[0].job > 0


@pytest.mark.asyncio
async def test_a_call_that_goes_on_in_its_session_is_detached_and_not_cancelled(private_state):
    told = Told()
    gates.append(anyio.Event())
    async with Executor(local=Cores(2), listen="tcp://127.0.0.1:0"):
        async with connect(session="nightly", observers=[told]) as first:
            events = first.events()
            first.name("gate", (through_a_gate @ Cores(1))())
            stream_ = start((counting_up @ Cores(1))())
            begun = 0
            while begun < 2:
                begun += (await anext(events)).kind == "job_started"
        assert {end.call.name: (end.outcome, end.error) for end in told.ends} == {
            "through_a_gate": ("detached", None),
            "counting_up": ("cancelled", None),
        }
        del stream_
        gates[-1].set()
        async with connect(session="nightly", observers=[told]) as second:
            assert await second.placeholders()["gate"] == "through"
        assert len(told.ends) == 2


@pytest.mark.asyncio
async def test_jobs_of_another_engine_are_observed_too():
    observer = Surrounds()
    async with Executor(backend=ThreadBackend(1), observers=[observer]):
        assert await (plain_variable @ Cores(1))("OBSERVED") == "call 1"
        MARK.set("the caller's")
        assert await (delayed(mark) @ Cores(1))() == "the caller's"
    assert [end.outcome for end in observer.ends] == ["succeeded", "succeeded"]


@pytest.mark.anyio
async def test_observers_are_found_by_name(monkeypatch):
    class Point:
        name = "told"

        def load(self):
            return Told

    points = {"grainlike.observers": [Point()]}
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points.get(group, []))
    monkeypatch.setenv("GRAINLIKE_OBSERVERS", " told ,")
    assert [type(one) for one in find_observers([])] == [Told]
    assert [type(one) for one in find_observers(["told"])] == [Told]
    async with Executor(local=Cores(1)) as executor:
        assert await (square @ Cores(1))(3) == 9
        [told] = executor._settings.observers
        assert [end.outcome for end in told.ends] == ["succeeded"]


@pytest.mark.parametrize(
    ("asked", "kind", "says"),
    [
        (["nobody"], ValueError, "there is no observer 'nobody': .*otel"),
        ("otel", TypeError, r"observers= takes a list: \['otel'\]"),
        ([object()], TypeError, "an observer is a CallObserver"),
    ],
)
def test_what_is_no_observer_is_refused(asked, kind, says):
    with pytest.raises(kind, match=says):
        Executor(local=Cores(1), observers=asked)


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ImportError, match=r"pip install 'grainlike\[otel\]'"):
        Executor(local=Cores(1), observers=["otel"])


@pytest.mark.anyio
async def test_without_observers_nothing_is_there_for_them():
    async with Executor(local=Cores(1)) as executor:
        assert executor._engine.jobs is executor._service.runner
        assert executor._engine.ended is None
        assert not executor._engine.keeps_contexts
