"""Every public name says what it is, with an example that holds."""

import doctest
import importlib
import inspect

import pytest

import grainlike

_NAMES = [name for name in grainlike.__all__ if not name.startswith("_")]


def _documented(name: str) -> object:
    """What stands behind a name; `graph` is a room that answers to a call of its function."""
    found = getattr(grainlike, name)
    return found.graph if inspect.ismodule(found) else found


@pytest.mark.parametrize("name", _NAMES)
def test_a_public_name_is_documented_with_an_example(name: str) -> None:
    found = _documented(name)
    text = inspect.getdoc(found) or ""
    assert text, f"{name} has no docstring"
    assert "Example" in text, f"{name} shows no example"


@pytest.mark.parametrize(
    "room",
    [
        "resources._words",
        "resources._terms_words",
        "resources._topology",
        "resources._request",
        "resources._parse",
        "resources._missing",
        "context",
    ],
)
def test_examples_of_pure_rooms_hold(room: str) -> None:
    module = importlib.import_module(f"grainlike.{room}")
    names = {name: getattr(grainlike, name) for name in _NAMES}
    result = doctest.testmod(module, extraglobs={**names, **vars(module)})
    assert result.failed == 0
