"""Names that tests, examples and benchmarks take from our packages are there, private ones too.

A name that a change has moved is otherwise noticed by those alone who take it, some of whom run late and seldom.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
TAKERS = ("tests", "examples", "tutorials", "benchmarks", "docs/_site", ".ci")
ON_PURPOSE = {"tests/unit/test_front_door.py", "tests/architecture/test_taken_names.py"}
"""Files that ask for what is not there."""

_OURS = r"(?:grainlike|grainlike_worker|grainlike_bench|simtest)\b"
_IMPORT = re.compile(rf"^[ \t]*import ({_OURS}[\w.]*)(?: as (\w+))?$", re.MULTILINE)
_FROM = re.compile(rf"^[ \t]*from ({_OURS}[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)
_COMMENT = re.compile("#.*")
_NAME = re.compile(r"(\w+)(?: as (\w+))?")
_USED = re.compile(r"(?<![\w.\"'`/])([^\W\d]\w*)((?:\.\w+)+)")
_REPLACED = re.compile(r"\bsetattr\(\s*(\w+)((?:\.\w+)*),\s*\"(\w+)\"")
_REPLACED_BY_NAME = re.compile(rf"\bsetattr\(\s*\"({_OURS}[\w.]*)\"")


def test_every_name_that_is_taken_exists() -> None:
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for folder in TAKERS
        for path in (ROOT / folder).rglob("*.py")
        if str(path.relative_to(ROOT)) not in ON_PURPOSE
        for name in taken(path.read_text())
        if find(name) is MISSING
    }
    assert sorted(missing) == []
    if not_installed:
        pytest.skip(f"names are not looked for in modules that need {', '.join(sorted(not_installed))}")


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("from grainlike.client import _connection\n_connection._moved()", {"grainlike.client._connection._moved"}),
        ("from grainlike.client import (  # why\n    _moved,\n)", {"grainlike.client._moved"}),
        ("import grainlike as g\ndef f():\n    return g.dag.Daag", {"grainlike.dag.Daag"}),
        ("import grainlike._moved", {"grainlike._moved"}),
        (
            'from grainlike.net import _pending as p\ndef test(m):\n    m.setattr(\n        p, "_moved", 1\n    )',
            {"grainlike.net._pending._moved"},
        ),
        (
            'from grainlike import Executor\nm.setattr(Executor, "_moved", 1)\nm.setattr(Executor, "__init__", 1)',
            {"grainlike.Executor._moved"},
        ),
        ('import grainlike\nm.setattr("grainlike.net._moved.X", 1)', {"grainlike.net._moved.X"}),
        ("from grainlike import Cores\nx.Cores.y\n'Cores.y', a/Cores.y\nCores(1).y\nimport os\nos.moved", set()),
        ("import grainlike.net._pending\ngrainlike.net._pending._PATIENCE_S", set()),
    ],
)
def test_a_name_that_is_not_there_is_seen(source: str, missing: set[str]) -> None:
    assert {name for name in taken(source) if find(name) is MISSING} == missing


def taken(source: str) -> Iterator[str]:
    """Yield the whole names of what a program imports from our packages, and uses or replaces there.

    Programs are not parsed, which would take seconds for all of them: what a name stands for is told by its looks.
    """
    bound: dict[str, str] = {}
    for module, own in _IMPORT.findall(source):
        yield module
        top = module.partition(".")[0]
        bound[own or top] = module if own else top
    for module, names in _FROM.findall(source):
        for name, own in _NAME.findall(_COMMENT.sub("", names)):
            yield f"{module}.{name}"
            bound[own or name] = f"{module}.{name}"
    if not bound:
        return
    for owner, attributes in _USED.findall(source):
        if owner in bound:
            yield f"{bound[owner]}{attributes}"
    for owner, attributes, replaced in _REPLACED.findall(source):
        if owner in bound:
            yield f"{bound[owner]}{attributes}.{replaced}"
    yield from _REPLACED_BY_NAME.findall(source)


MISSING = object()
ANYTHING = object()
"""An attribute of what is neither a class nor a module of ours, or of a module that needs what is not installed."""

not_installed: set[str] = set()


@cache
def find(name: str) -> object:
    """Return what has this name; `MISSING` if there is none in a module or class, or no module of a name before."""
    before, _, last = name.rpartition(".")
    owner = find(before) if before else None
    if owner is MISSING:
        return MISSING
    if owner is not None and not _is_ours(owner):
        return ANYTHING
    try:
        if owner is not None and (found := getattr(owner, last, MISSING)) is not MISSING:
            return found
        return import_module(name) if isinstance(owner, ModuleType | None) else MISSING
    except ModuleNotFoundError as error:
        missing = str(error.name)
        if name.startswith(missing):
            return MISSING
        not_installed.add(missing)
        return ANYTHING


def _is_ours(owner: object) -> bool:
    """Return True for a class, or a module of our packages."""
    return isinstance(owner, type) or (isinstance(owner, ModuleType) and bool(re.match(_OURS, owner.__name__)))
