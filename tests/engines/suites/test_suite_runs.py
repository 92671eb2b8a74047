"""A run of a suite is red when a test fails that is no exception, when an exception passes, and when too few ran."""

from __future__ import annotations

import pytest
from suite_runs import Outcomes, Suite, judge, read_suite

SUITE = Suite("joblib", ["a.py"], least=2, exceptions={"a.py::known": "why"}, left_out={})
GOOD = {"a.py::known": "failed", "a.py::one": "passed", "a.py::two": "passed", "a.py::three": "skipped"}


def judged(**ended: str) -> str:
    named = {f"a.py::{test}": end for test, end in ended.items()}
    return "\n".join(judge(SUITE, Outcomes({**GOOD, **named}, {"a.py::one": "its reason"}, "the output")))


def test_exceptions_that_fail_and_enough_that_pass_are_right() -> None:
    assert judged() == ""


def test_a_failure_that_is_no_exception_is_told_with_its_reason() -> None:
    assert "a.py::one failed, and is no exception:\nits reason" in judged(one="failed", four="passed")


@pytest.mark.parametrize("end", ["passed", "skipped"])
def test_an_exception_that_does_not_fail_is_told(end: str) -> None:
    assert f"a.py::known is among the exceptions of joblib.toml, and was {end}" in judged(known=end)


def test_an_exception_that_was_not_run_is_told() -> None:
    wrong = judge(SUITE, Outcomes({"a.py::one": "passed", "a.py::two": "passed"}, {}, ""))
    assert "a.py::known is among the exceptions of joblib.toml, and was not run" in wrong[0]


def test_too_few_that_passed_are_told() -> None:
    assert "1 tests passed, and joblib.toml expects 2 at least" in judged(two="skipped")


@pytest.mark.parametrize("name", ["cpython", "joblib", "sklearn", "dask"])
def test_each_exception_has_a_reason(name: str) -> None:
    suite = read_suite(name)
    assert suite.least > 100
    assert all(len(reason.split()) > 3 for reason in {**suite.exceptions, **suite.left_out}.values())
    assert not set(suite.exceptions) & set(suite.left_out)
    assert not {test.partition("[")[0] for test in {**suite.exceptions, **suite.left_out}} & set(suite.timed)
