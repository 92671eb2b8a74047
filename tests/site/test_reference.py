"""Completeness of what the reference shows: a summary, the errors that it raises, cancellation, an example."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
from api_pages import shown_members
from reference import SHOWN, examples_of

FUNCTIONS = {name: found for name, found in SHOWN.items() if inspect.isfunction(found)}


@pytest.mark.parametrize("name", SHOWN)
def test_it_has_a_summary(name: str) -> None:
    first = (inspect.getdoc(SHOWN[name]) or "").split("\n\n")[0]
    assert len(first.split()) >= 3, first
    assert first.rstrip().endswith((".", ":", ";"))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_shows_an_example(name: str) -> None:
    owner, _, last = name.rpartition(".")
    of_class = inspect.getdoc(SHOWN[owner]) or "" if owner in SHOWN else ""
    is_overridden = owner == "telemetry.CallObserver"  # its example shows how
    is_called = f".{last}(" in of_class.partition("Example")[2]
    assert is_overridden or is_called or re.search(r"Example|>>>", inspect.getdoc(FUNCTIONS[name]) or "")


@pytest.mark.parametrize("name", [name for name in SHOWN if name.endswith("Error")])
def test_an_error_says_what_to_do_and_shows_how_it_is_met(name: str) -> None:
    when, _, rest = (inspect.getdoc(SHOWN[name]) or "").partition("Example")
    assert re.match(r"Raised (when|for|in) |Base of ", when)
    assert rest
    assert 2 <= sum(len(one.code.splitlines()) for one in examples_of(name)) <= 8
    assert name == "ResourceSpecError" or len(re.split(r"\.\s", when.partition("Attributes:")[0])) >= 3, when


@pytest.mark.parametrize("name", ["graph.Info", "executor.ConnectedExecutor", "GVAR"])
def test_a_class_beside_the_exported_ones_shows_an_example(name: str) -> None:
    assert examples_of(name)


def test_a_fixture_says_what_cancellation_does() -> None:
    assert "cancelled" in (inspect.getdoc(SHOWN["testing.plugin.cluster"]) or "")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_raises_says_so(name: str) -> None:
    missing = _raised(FUNCTIONS[name]) - set(re.findall(r"\w+", inspect.getdoc(FUNCTIONS[name]) or ""))
    assert missing == set()


@pytest.mark.parametrize(
    "name", [name for name, found in FUNCTIONS.items() if inspect.iscoroutinefunction(found)], ids=str
)
def test_a_coroutine_says_what_cancellation_does(name: str) -> None:
    assert re.search(r"[Cc]ancel", inspect.getdoc(FUNCTIONS[name]) or "")


def test_no_module_is_shown_with_all_that_is_in_it() -> None:
    assert [name for name, found in SHOWN.items() if inspect.ismodule(found)] == []


def test_what_is_shown_beside_a_class_is_for_users() -> None:
    internal = ("dialect_class", "is_away", "has_one_server", "block_nodes")
    classes = [name for name, found in SHOWN.items() if isinstance(found, type)]
    shown = {f"{name}.{member}" for name in classes for member in shown_members(name, SHOWN[name])}
    assert [name for name in shown if name.rpartition(".")[2] in internal] == []


def test_much_is_shown() -> None:
    assert {"delayed", "Executor.up", "Dag.run", "launch.Slurm", "executor.ConnectedExecutor.name"} <= set(SHOWN)
    assert "Executor.pause" not in SHOWN


def _raised(function: Callable[..., Any]) -> set[str]:
    """Names of the exceptions that a function raises itself, not by what it calls."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    raised = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc is not None]
    called = [one.func if isinstance(one, ast.Call) else one for one in raised]
    return {one.id for one in called if isinstance(one, ast.Name) and one.id.endswith("Error")}
