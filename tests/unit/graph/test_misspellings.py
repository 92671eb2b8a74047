"""Calls that look right and are not: each is refused, with the spelling that was meant."""

import asyncio
import inspect
import sys
import warnings
from typing import Any

import pytest

from grainlike import Cores, Executor, gather, run, start
from grainlike.graph import _misspelled, delayed, info

R: Any = delayed(len)("abc")
F: Any = delayed(len)
DELAYED: Any = delayed


def said(attempt: Any, kind: type[BaseException] = TypeError) -> str:
    with pytest.raises(kind) as caught:
        attempt()
    return str(caught.value)


def test_a_request_is_not_given_to_the_decorator() -> None:
    meant = "resources are given at the call; write `@delayed` above the function, and `(fn @ Cores(4))(x)`"
    assert said(lambda: DELAYED(Cores(4))) == f"@delayed takes no request: {meant}"
    assert said(lambda: DELAYED(cores=4)) == f"@delayed takes no cores=: {meant}"
    assert said(lambda: DELAYED(len, cores=4)) == f"@delayed takes no cores=: {meant}"
    assert said(lambda: DELAYED(memory="8Gi")).endswith("`(fn @ Memory('8Gi'))(x)`")


def test_an_option_that_there_is_not_is_refused_as_python_does() -> None:
    unexpected = "delayed() got an unexpected keyword argument"
    assert said(lambda: DELAYED(retry=3)) == f"{unexpected} 'retry': write retries="
    assert tuple(inspect.signature(delayed).parameters)[1:-1] == _misspelled._OPTIONS
    assert said(lambda: DELAYED(colour=3)) == f"{unexpected} 'colour'"


def test_a_request_under_any_name_is_refused_with_where_it_is_given() -> None:
    meant = "resources are given at the call; write `@delayed` above the function, and `(fn @ Cores(1))(x)`"
    assert said(lambda: DELAYED(resources=Cores(1))) == f"@delayed takes no resources=: {meant}"


@pytest.mark.parametrize(
    ("name", "plain", "with_cores"),
    [
        ("map", "await gather(len(x) for x in xs)`, or `amap(len, xs)", "(len @ Cores(1))(x) for x in xs"),
        ("remote", "len(x)", "(len @ Cores(1))(x)"),
        ("delay", "len(x)", "(len @ Cores(1))(x)"),
        ("submit", "start(len(x))", "start((len @ Cores(1))(x))"),
    ],
)
def test_methods_of_other_libraries_functions(name: str, plain: str, with_cores: str) -> None:
    assert said(lambda: getattr(F, name), AttributeError) == (
        f"'DelayedFn' object has no attribute {name!r}: write `{plain}`"
    )
    assert with_cores in said(lambda: getattr(F @ Cores(1), name), AttributeError)
    assert said(lambda: F.anything, AttributeError) == "'DelayedFn' object has no attribute 'anything'"


def test_functions_that_were_not_called_are_not_gathered() -> None:
    meant = "gather takes placeholders, and len is a delayed function: call it, `(len @ Cores(1))(...)`"
    fn = F @ Cores(1)
    for attempt in (lambda: gather(fn), lambda: gather(fn, fn), lambda: gather([fn]), lambda: gather(R, fn)):
        assert said(attempt) == meant
    assert said(lambda: gather(F)).endswith("call it, `len(...)`")


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"max_workers": 2}, ": write Executor(local=Cores(2))"),
        ({"n_workers": 2}, ": write Executor(local=Cores(2))"),
        ({"cores": 2}, ": write Executor(local=Cores(2))"),
        ({"gpus": 1}, ": write Executor(local=GPUs(1))"),
        ({"colour": 1}, ""),
    ],
)
def test_options_of_other_executors(options: dict[str, Any], hint: str) -> None:
    (name,) = options
    assert said(lambda: Executor(**options)) == f"Executor() got an unexpected keyword argument {name!r}{hint}"


async def no_executor_method(name: str) -> str:
    async with Executor(local=None, listen="tcp://127.0.0.1:0") as ex:
        return said(lambda: getattr(ex, name), AttributeError)


def test_methods_of_other_executors() -> None:
    assert asyncio.run(no_executor_method("map")) == (
        "'Executor' object has no attribute 'map': write `await gather((fn @ Cores(1))(x) for x in xs)`, or "
        "`amap(fn @ Cores(1), xs)`"
    )
    assert asyncio.run(no_executor_method("colour")) == "'Executor' object has no attribute 'colour'"


def test_a_request_is_not_an_argument_before_the_arguments() -> None:
    assert said(lambda: F(Cores(1))(3)) == (
        "`len(Cores(1))(...)` calls len with a request: write `(len @ Cores(1))(...)`"
    )


def test_a_value_that_was_called_with_a_request_may_be_used() -> None:
    assert "lazy" in repr(F(Cores(1)) + 1)


def test_await_binds_tighter_than_a_request() -> None:
    async def awaits() -> None:
        _ = await F @ Cores(1)(3)

    assert said(lambda: asyncio.run(awaits())) == (
        "len is a delayed function: call it first, `await len(...)`; with resources `await (len @ Cores(1))(...)`"
    )


TASK = "a coroutine was expected, got <Delayed len('abc'): lazy>, which is no coroutine: write asyncio.ensure_future(r_) for a task, or start(r_)"  # noqa: E501


IN_GROUP = "a coroutine was expected, got <Delayed len('abc'): lazy>, which is no coroutine: write `async def job(): return await r_` and create_task(job()), so that the group waits for it"  # noqa: E501


def test_a_placeholder_is_no_coroutine_for_a_task() -> None:
    async def creates() -> None:
        assert said(lambda: asyncio.create_task(R)) == TASK
        assert said(lambda: asyncio.get_running_loop().create_task(R)) == TASK
        async with asyncio.TaskGroup() as group:
            assert said(lambda: group.create_task(R)) == IN_GROUP

    asyncio.run(creates())


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="asyncio.run takes all that can be awaited")
def test_a_placeholder_is_no_program() -> None:
    assert said(lambda: asyncio.run(R), ValueError) == (
        "a coroutine was expected, got <Delayed len('abc'): lazy>, which is no coroutine: write grainlike.run(main), "
        "with `await r_` in main"
    )


def test_run_inside_a_running_loop() -> None:
    async def main() -> None:
        """Nothing."""

    async def inside() -> None:
        assert said(lambda: run(main), RuntimeError) == (
            "run starts an event loop, and one is running here already: write `await main()`, inside `async with "
            "Executor(...):` for other resources than this process's cores"
        )

    asyncio.run(inside())


def test_start_outside_a_loop_does_not_speak_of_awaiting() -> None:
    message = said(lambda: start(R), RuntimeError)
    assert message == (
        "no event loop is running here, and placeholders run inside one: write `async def main():` around this, and "
        "call grainlike.run(main), or asyncio.run(main())"
    )
    assert "await" not in message


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("result", "`await r_`, or result(r_) in a thread"),
        ("exception", "`await r_`, or info(r_).error"),
        ("done", "info(r_).state"),
        ("compute", "`await r_`"),
        ("persist", "start(r_)"),
        ("status", "info(r_).state"),
        ("key", "info(r_).job"),
        ("cancel", "cancel(r_)"),
    ],
)
def test_methods_of_futures_are_the_value_s_own_and_said_to_be_once(
    name: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_misspelled, "_hinted", set())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        called = getattr(R, name)()
        getattr(R, name)()
    (warning,) = caught
    assert str(warning.message) == (
        f"r_.{name}() on a placeholder is a call of the value's own method {name}(), and gives a further placeholder: "
        f"if you meant the placeholder, write {meant}"
    )
    assert warning.category is UserWarning
    assert warning.filename == __file__
    assert info(called).state == "lazy"


def test_each_name_of_futures_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_misspelled, "_hinted", set())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        R.result()
        R.compute()
        R.result()
    assert [str(warning.message).split("(")[0] for warning in caught] == ["r_.result", "r_.compute"]


@pytest.mark.parametrize(("name", "meant"), [("status", "info(r_).state"), ("key", "info(r_).job")])
def test_attributes_of_other_futures_are_shown_as_the_value_s_own(name: str, meant: str) -> None:
    assert repr(getattr(R, name)) == (
        f"<Delayed getattr: lazy>, the value's own attribute: for the placeholder write {meant}"
    )
    assert repr(R.shape) == "<Delayed getattr: lazy>"


def test_other_methods_of_the_value_are_not_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_misspelled, "_hinted", set())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        R.mean()
        R.result  # noqa: B018 - an attribute is not a call
    assert not caught
