"""Values of options that are read without typer's own conversion are what it would have made of them."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from grainlike.cli._app import read_value
from grainlike.cli._root import whole_app

TYPED = ["", "1", "-1", "0", "007", "+1", " 1", "1_0", "1.0", "1.5", "-0.1", "1e3", "nan", "9" * 18, "9" * 30, "\u0661"]
TYPED += ["a", "true", "error", "ERROR", "failed", "always", ".", "/dev/null", "/nowhere/at/all", "-", "a b", "\udcff"]


def parameters() -> Iterator[tuple[str, Any]]:
    """Iterate over the parameters of all commands, each of a kind once."""

    def of(command: Any, words: str) -> Iterator[tuple[str, Any]]:
        for one in command.params:
            yield f"{words} {one.name}", one
        for name, below in getattr(command, "commands", {}).items():
            yield from of(below, f"{words} {name}")

    seen: set[object] = set()
    for name, parameter in of(typer.main.get_command(whole_app()), ""):
        descriptor = parameter.type_descriptor
        info = descriptor.parameter_info
        kind = (str(descriptor.annotation), info.min, info.max, info.exists, info.dir_okay, info.file_okay)
        if kind not in seen:
            seen.add(kind)
            yield name, parameter


@pytest.mark.skipif(not hasattr(typer.core, "_TyperParameter"), reason="an older typer converts values by click")
@pytest.mark.parametrize("text", TYPED)
def test_what_is_read_is_what_typer_makes_of_it(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    read = 0
    for name, parameter in parameters():
        context: Any = None
        value = [text, text] if parameter.nargs == -1 or getattr(parameter, "multiple", False) else text
        try:
            found = read_value(parameter, value)
        except ValueError:
            continue
        read += 1
        made = parameter.get_runtime_param().coerce(value, param=parameter, ctx=context)
        assert (found, type(found)) == (made, type(made)), name
    assert read, "options of words take any"


@pytest.mark.skipif(not hasattr(typer.core, "_TyperParameter"), reason="an older typer converts values by click")
def test_what_was_not_typed_is_as_typer_has_it() -> None:
    for name, parameter in parameters():
        if not parameter.required:
            made = parameter.get_runtime_param().coerce(None, param=parameter, ctx=Any)
            assert read_value(parameter, None) == made, name
