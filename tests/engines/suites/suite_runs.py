"""A suite of tests of another project's, run with our parts in place of theirs, and what is known to fail of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import tomllib
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from limits import LIMIT_S

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

TEST_LIMIT_S = int(LIMIT_S)
"""How long one test may take."""

MOST_AGAIN = 2
"""Most times that a test which failed by the clock runs again."""

SUITE_LIMIT_S = 900
"""How long a suite may take: several times what it takes on two cores."""


@dataclass(frozen=True)
class Suite:
    """What `NAME.toml` says.

    Attributes:
        modules: what is run, as files below the folder in which the packages lie.
        least: how many tests must pass at least.
        exceptions: why a test fails, by its id; each of these must fail.
        left_out: why a test is not run, by its id.
        timed: why a test holds us to the clock, by its id without parameters. One that fails runs again, alone.
        select: what pytest's `-k` says.
        shim: the pytest plugin that puts our parts in place of theirs.
    """

    name: str
    modules: list[str]
    least: int
    exceptions: dict[str, str]
    left_out: dict[str, str]
    timed: dict[str, str] = field(default_factory=dict)
    select: str = ""
    shim: str = ""


@dataclass(frozen=True)
class Outcomes:
    """How tests ended, `passed`, `failed` or `skipped`, by their ids; why they failed; and the end of the output."""

    ended: dict[str, str]
    why: dict[str, str]
    output: str

    @property
    def failed(self) -> list[str]:
        """Ids of the tests that failed."""
        return [test for test, end in self.ended.items() if end == "failed"]

    def renewed(self, again: Outcomes) -> Outcomes:
        """Return these, with those of tests that have run again in the place of their own."""
        return Outcomes(self.ended | again.ended, self.why | again.why, again.output)


def read_suite(name: str) -> Suite:
    """Read `NAME.toml`."""
    table: dict[str, Any] = tomllib.loads((HERE / f"{name}.toml").read_text())
    exceptions, left_out = _by_id(table.pop("exceptions", [])), _by_id(table.pop("left-out", []))
    return Suite(name, exceptions=exceptions, left_out=left_out, timed=_by_id(table.pop("timed", [])), **table)


def _by_id(groups: list[dict[str, str]]) -> dict[str, str]:
    """Reasons by test; a group names its tests one a line."""
    found: dict[str, str] = {}
    for group in groups:
        for test in group["tests"].splitlines():
            assert test not in found, f"{test} is named twice"
            found[test] = group["reason"]
    return found


def judge(suite: Suite, outcomes: Outcomes) -> list[str]:
    """Return what is wrong: failures that are no exceptions, exceptions that do not fail, and too few that passed."""
    wrong = [
        f"{test} failed, and is no exception:\n{outcomes.why.get(test, '')}"
        for test, end in outcomes.ended.items()
        if end == "failed" and test not in suite.exceptions
    ]
    for test in suite.exceptions:
        end = outcomes.ended.get(test, "not run")
        if end != "failed":
            wrong.append(f"{test} is among the exceptions of {suite.name}.toml, and was {end}: take it out")
    passed = sum(end == "passed" for end in outcomes.ended.values())
    if passed < suite.least:
        wrong.append(f"{passed} tests passed, and {suite.name}.toml expects {suite.least} at least")
    if wrong:
        wrong.append(f"the end of its output:\n{outcomes.output}")
    return wrong


def run_suite(suite: Suite, folder: Path, packages: Path | None = None) -> Outcomes:
    """Run a suite in a program of its own, whose files lie in `folder`; `packages` is where its modules are."""
    packages = packages or Path(sysconfig.get_path("purelib"))
    outcomes = _run(suite, suite.modules, suite.left_out, folder, packages)
    for number in range(MOST_AGAIN):
        late = sorted({function for test in outcomes.failed if (function := _function(test)) in suite.timed})
        if late:
            again = folder / f"again{number}"
            again.mkdir()
            outcomes = outcomes.renewed(_run(suite, late, {}, again, packages))
    return outcomes


def _function(test: str) -> str:
    return test.partition("[")[0]


def _run(suite: Suite, what: list[str], left_out: dict[str, str], folder: Path, packages: Path) -> Outcomes:
    told, output, runtime = folder / "outcomes", folder / "output", folder / "run"
    runtime.mkdir()
    told.touch()
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        os.devnull,
        "--rootdir",
        str(packages),
        "-q",
        "--tb=short",
        "--durations=15",
    ]
    command += ["-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:anyio", "-p", "suite_outcomes"]
    command += ["-p", suite.shim or f"{suite.name}_shim", f"--timeout={TEST_LIMIT_S}", "-k", suite.select]
    environment = {
        **os.environ,
        # The standard library's own tests come before those of the Python that runs, which may have none.
        "PYTHONPATH": os.pathsep.join(map(str, (packages, ROOT, ROOT / "worker", HERE))),
        "XDG_RUNTIME_DIR": str(runtime),
        "GRAINLIKE_SUITE_OUTCOMES": str(told),
        "GRAINLIKE_SUITE_LEFT_OUT": json.dumps(sorted(left_out)),
    }
    with output.open("w") as file:
        program = subprocess.Popen(
            [*command, *(str(packages / each) for each in what)],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            program.wait(SUITE_LIMIT_S)
        except subprocess.TimeoutExpired:
            file.write(f"\nit did not end in {SUITE_LIMIT_S} s\n")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            program.wait()
    rows = [json.loads(line) for line in told.read_text().splitlines()]
    if program.returncode not in (0, 1):  # pytest's for tests that passed, and that failed
        rows.append([f"the program, which ended with {program.returncode},", "failed", ""])
    ended = {test: outcome for test, outcome, _ in rows}
    return Outcomes(ended, {test: why for test, _, why in rows}, output.read_text()[-4000:])
