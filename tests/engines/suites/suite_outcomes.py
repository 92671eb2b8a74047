"""A pytest plugin that writes how each test of a suite ended to `GRAINLIKE_SUITE_OUTCOMES`, a line of JSON a test."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

_outcome: dict[str, str] = {}
_why: dict[str, str] = {}


def pytest_configure() -> None:
    """Give every machine two cores, of which some exceptions depend."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not to run."""
    names = set(json.loads(os.environ["GRAINLIKE_SUITE_LEFT_OUT"]))
    left_out = [item for item in items if item.nodeid in names]
    unknown = names - {item.nodeid for item in left_out}
    if unknown:
        raise pytest.UsageError(f"there are no such tests to be left out: {', '.join(sorted(unknown))}")
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item.nodeid not in names]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note the worst of a test's phases: a failure of one, then a skip; an expected failure is neither."""
    before = _outcome.get(report.nodeid, "passed")
    if report.failed:
        _why.setdefault(report.nodeid, report.longreprtext)
        _outcome[report.nodeid] = "failed"
    elif report.skipped and not hasattr(report, "wasxfail") and before == "passed":
        _outcome[report.nodeid] = "skipped"
    else:
        _outcome[report.nodeid] = before


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Write it at once: the process may not live to the end."""
    with Path(os.environ["GRAINLIKE_SUITE_OUTCOMES"]).open("a") as file:
        print(json.dumps([nodeid, _outcome.get(nodeid, "failed"), _why.get(nodeid, "")]), file=file)
