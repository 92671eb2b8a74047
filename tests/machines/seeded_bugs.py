"""Bugs made by hand, each as a change of the sources, and the suite that must go red for it.

A suite that stays green whatever is broken proves nothing, so the tables of bugs (`head_bugs`, `node_bugs` and others)
are to the tests what the tests are to the code. `catch_bugs.py` plants each in a copy of the sources and runs the
suite; a bug that is not seen is a hole in the suite. Where a change touches a line of a bug, the bug moves along: it
must still be the same mistake.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["HEAD", "NODE", "REPOSITORY", "SUITES", "TALK", "Bug", "Change", "plant", "planted_source", "seeded_bug"]

REPOSITORY = Path(__file__).resolve().parents[2]

HEAD, NODE, TALK = "head's scheduler", "node's scheduler", "talk of the two"

SUITES = {
    "judge": "tests/simulation/test_worlds.py::test_every_promise_is_kept",
    "nested": "tests/simulation/test_nested_worlds.py::test_every_promise_is_kept",
    "gangs": "tests/simulation/test_gang_worlds.py::test_every_promise_is_kept_and_the_worlds_see_every_path",
    "orphans": "tests/simulation/test_head_crash.py::test_every_promise_is_kept",
    "laws": "tests/simulation/test_worlds.py::test_every_promise_is_kept",
    "waits": "tests/simulation/test_policy.py",
    "replay": "tests/simulation/test_replay.py",
    "machine": "tests/machines/test_schedulers_machine.py::TestMinds",
    "lenders": "tests/machines/test_schedulers_machine.py::TestLenders",
}
"""What to run. In those of `JUDGED` the judge is alone: the schedulers' own laws are not looked at."""

JUDGED = ("judge", "nested", "gangs", "orphans", "values")


@dataclass(frozen=True)
class Change:
    """In a module of `package`, `old` becomes `new`. It is there once."""

    module: str
    old: str
    new: str
    package: str = "grainlike"


@dataclass(frozen=True)
class Bug:
    """A mistake: what it is called, where it is, what it breaks, who must see it."""

    name: str
    room: str
    breaks: str
    suite: str
    changes: tuple[Change, ...]


def seeded_bug(name: str, room: str, breaks: str, suite: str, *changes: tuple[str, str, str]) -> Bug:
    """Return a bug of these changes: module, old and new text."""
    return Bug(name, room, breaks, suite, tuple(Change(*change) for change in changes))


WITHOUT_LAWS = Change("_trial.py", "            scheduler.check()\n", "", "simtest")


def planted_source(change: Change) -> str:
    """The module as the change leaves it.

    Raises:
        LookupError: the text to change is not there exactly once.
    """
    text = (REPOSITORY / change.package / change.module).read_text()
    if text.count(change.old) != 1:
        raise LookupError(f"{change.module} has this {text.count(change.old)} times, not once:\n{change.old}")
    return text.replace(change.old, change.new)


def plant(bug: Bug | None, tree: Path) -> None:
    """Lay out what the suites need under `tree`, with the bug in it; `None` is none."""
    skip = shutil.ignore_patterns("__pycache__")
    for part in ("grainlike", "worker", "simtest", "tests"):
        shutil.copytree(REPOSITORY / part, tree / part, ignore=skip)
    shutil.copy(REPOSITORY / "pyproject.toml", tree)
    changes: Sequence[Change] = () if bug is None else bug.changes
    if bug is not None and bug.suite in JUDGED:
        changes = (*changes, WITHOUT_LAWS)
    for change in changes:
        path = tree / change.package / change.module
        text = path.read_text()
        assert text.count(change.old) == 1, f"{change.module} has this {text.count(change.old)} times:\n{change.old}"
        path.write_text(text.replace(change.old, change.new))
