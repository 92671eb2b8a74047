"""Tests wait for events and count work. Who asserts that something took no longer than so many seconds, or sleeps in
the body of a test, is named here, with the reason: on a busy machine both are wrong now and then.

A lower bound is none of these, as more time only makes it truer; nor is the order of two moments of one clock.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "current_time", "time", "time_ns"}
"""Names of functions that read a clock of the wall; `time.time` and a loop's `time` among them."""

MAY_ASSERT = {
    "integration/faults/test_faults_named_calls.py": "a duration that widens the bound: the longer it took, the truer",
    "unit/executor/test_history_again.py": "two clocks that both go on, read at one moment: they differ as was written",
    "unit/worker/test_worker_end_timer.py": "virtual time",
}

MAY_SLEEP = {
    "integration/faults/test_faults_blocked_loop.py": "an event loop that stands still is what is tested",
    "unit/worker/test_worker_steps.py": "an event loop that is busy for longer than another task waits",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def clock_assertions(source: str) -> Iterator[int]:
    """Lines of assertions that a duration on a clock of the wall is at most so long, or about so long."""
    if not any(f"{name}()" in source for name in CLOCKS):  # to parse all files takes seconds
        return
    found: set[int] = set()
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, Function):
            durations = set(_names_of_durations(function))
            for node in ast.walk(function):
                if isinstance(node, ast.Assert) and any(_bounds(each, durations) for each in ast.walk(node.test)):
                    found.add(node.lineno)
    yield from sorted(found)


def _names_of_durations(function: Function) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and _is_duration(node.value, set()):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _bounds(node: ast.AST, durations: set[str]) -> bool:
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    for small, operator, large in zip(sides, node.ops, sides[1:], strict=False):
        if isinstance(operator, ast.Gt | ast.GtE):
            small, large = large, small
        is_equal = isinstance(operator, ast.Eq)
        if _is_duration(small, durations) or (is_equal and _is_duration(large, durations)):
            return True
    return False


def _is_duration(node: ast.AST, durations: set[str]) -> bool:
    """Return True if a difference of which a clock gives the first part is in `node`, or the name of one."""
    return any(
        (isinstance(each, ast.Name) and each.id in durations)
        or (isinstance(each, ast.BinOp) and isinstance(each.op, ast.Sub) and any(map(_reads, ast.walk(each.left))))
        for each in ast.walk(node)
    )


def _reads(node: ast.AST) -> bool:
    """Return True for a call of a clock without arguments; `time()` alone may be anything."""
    if not isinstance(node, ast.Call) or node.args:
        return False
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr in CLOCKS
    return isinstance(function, ast.Name) and function.id in CLOCKS - {"time"}


def sleeps(source: str) -> Iterator[int]:
    """Lines of the bodies of tests in which something sleeps, other than for a turn of the event loop; functions that
    are defined there, as jobs are, are not the test's own body.
    """
    if "sleep(" not in source:
        return
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, Function) and function.name.startswith("test_"):
            yield from (each.lineno for each in _own(function) if _is_nap(each))


def _own(function: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, Function | ast.Lambda | ast.ClassDef):
            yield node
            yield from _own(node)


def _is_nap(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    turn = bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
    return name == "sleep" and not turn


def _found(look: object) -> dict[str, list[int]]:
    return {
        str(path.relative_to(TESTS)): lines
        for path in sorted(TESTS.rglob("*.py"))
        if path != Path(__file__) and (lines := list(look(path.read_text())))  # type: ignore[operator]
    }


def test_only_who_has_a_reason_asserts_that_a_clock_has_not_gone_far() -> None:
    found = _found(clock_assertions)
    assert {path: lines for path, lines in found.items() if path not in MAY_ASSERT} == {}, "count work instead"
    assert found.keys() == MAY_ASSERT.keys(), "who asserts it no more needs no reason"


def test_only_who_has_a_reason_sleeps_in_the_body_of_a_test() -> None:
    found = _found(sleeps)
    assert {path: lines for path, lines in found.items() if path not in MAY_SLEEP} == {}, "see tests/helpers/waiting.py"
    assert found.keys() == MAY_SLEEP.keys(), "who sleeps no more needs no reason"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("assert time.monotonic() - begun < 5", True),
        ("assert 5 >= monotonic() - begun", True),
        ("assert 0 <= loop.time() - begun < 60", True),
        ("took = time.perf_counter() - begun\n    assert took < LIMIT_S and True", True),
        ("assert abs(time.time() - there) < 1", True),
        ("assert ahead == approx(time.time() - time.monotonic(), abs=0.01)", True),
        ("assert time.monotonic() - begun >= PAUSE_S", False),
        ("assert before <= told.at <= time.monotonic()", False),
        ("assert told.began <= time.monotonic() - 3600", False),
        ("assert clock.time(3) - begun < 5", False),
    ],
)
def test_an_assertion_on_a_clock_is_seen(body: str, found: bool) -> None:
    assert bool(list(clock_assertions(f"def f():\n    {body}"))) == found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("await asyncio.sleep(0.1)", True),
        ("with opened():\n        time.sleep(PAUSE_S)", True),
        ("await asyncio.sleep(0)", False),
        ("def job():\n        time.sleep(1)", False),
        ("f = lambda: time.sleep(1)", False),
    ],
)
def test_a_sleep_in_the_body_of_a_test_is_seen(body: str, found: bool) -> None:
    assert bool(list(sleeps(f"async def test_it():\n    {body}"))) == found
    assert not list(sleeps(f"async def job():\n    {body}"))
