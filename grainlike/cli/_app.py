"""The whole program: its commands, parsed and run. What a command does is loaded when it is run."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from copy import copy
from enum import Enum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_origin

import typer
from typer.models import TyperInfo

from grainlike.cli._exits import OK, UNREAD, USAGE
from grainlike.cli._root import HELP_OPTIONS, MODULES, app, whole_app
from grainlike.cli.help import contents_of, draw_light, explain_light
from grainlike.errors import SettingsError
from grainlike.subprocesses import reserve_standard_descriptors

__all__ = ["read_value", "run_app", "with_pause"]

_INTEGER = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")


def run_app(arguments: list[str]) -> int:
    """Parse and run; return the exit code. Wrong usage has been explained, and is exit code 2."""
    reserve_standard_descriptors()
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # Python found the descriptor closed
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: PTH123, SIM115
    words = with_pause(arguments)
    try:
        _program(words)(words, prog_name="grainlike", default_map=_defaults(words))
    except SettingsError as error:
        print(f"grainlike: {error}", file=sys.stderr)  # noqa: T201 - a command line speaks
        return USAGE
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # as rich and click end where help is read no more
            return UNREAD
        return end.code if isinstance(end.code, int) else OK
    return OK


def _program(words: list[str]) -> Any:
    """Return the program as click has it, with the command alone that is typed: all of them take longer than most run.

    A word that is no command, and none, get all: for the help, and for what was meant.
    """
    word = next((word for word in words if not word.startswith("-")), None)
    module = next((module for module, commands in MODULES.items() if word in commands), None)
    if module is None and words != ["--version"]:
        return _converting(contents_of(whole_app()))
    if module is not None:
        import_module(f"grainlike.cli.{module}")
    typed = copy(app)
    typed.registered_commands = [command for command in app.registered_commands if command.name == word]
    typed.registered_groups = [_typed(group, words) for group in app.registered_groups if group.name == word]
    return _converting(typed)


def _typed(group: TyperInfo, words: list[str]) -> TyperInfo:
    """Return a group with those of its commands alone that are among the words, as the value of an option may be called
    like one; with all, where none is, or the help of the group is asked for.
    """
    commands = group.typer_instance
    assert commands is not None
    named = [command for command in commands.registered_commands if command.name in words]
    first = min((words.index(str(command.name)) for command in named), default=0)
    if not named or any(word in HELP_OPTIONS for word in words[:first]):
        return group
    alone, found = copy(group), copy(commands)
    found.registered_commands = named
    alone.typer_instance = found
    return alone


def _converting(typed: typer.Typer) -> Any:
    program = typer.main.get_command(typed)
    _lighten(program)
    explain_light(program)
    return program


def _lighten(command: Any) -> None:
    """Let a command and those below it load less: values that are told by themselves are read here, as for the first
    typer loads pydantic, which takes 0.1 s.
    """
    command.get_params = partial(_parameters, command.get_params)
    draw_light(command)
    for one in getattr(command, "commands", {}).values():
        _lighten(one)


def _parameters(found: Callable[[Any], list[Any]], context: Any) -> list[Any]:
    parameters = found(context)
    for parameter in parameters:
        if not isinstance(parameter.process_value, partial):
            parameter.process_value = partial(_with_words, parameter, parameter.process_value)
    return parameters


def _with_words(parameter: Any, process: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    """Process a value; a path that the system refuses, as one too long for it, is wrong usage."""
    try:
        return _processed(parameter, process, context, value)
    except OSError as error:
        if error.filename is None:  # a callback prints, as that of --version, and the output is read no more
            raise
        from grainlike._shown import shortened  # few paths are refused

        raise typer.BadParameter(f"{shortened(str(value))}: {error.strerror or error}", context, parameter) from None


def _processed(parameter: Any, process: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    try:
        read = read_value(parameter, value)
    except ValueError:  # typer says what is wrong, if anything is
        try:
            return process(context, value)
        except typer.BadParameter:
            words = _number_words(parameter, value)
            if not words:
                raise
            raise typer.BadParameter(words, context, parameter) from None
    return read if parameter.callback is None else parameter.callback(context, parameter, read)


def read_value(parameter: Any, value: Any) -> Any:
    """Return the value of a parameter of typer's, as it was typed or is by default: what typer would make of it.

    Raises:
        ValueError: it takes more to tell, or it looks wrong, which typer explains.
    """
    is_single = parameter.nargs == 1 and not getattr(parameter, "multiple", False)
    is_default = value is None or (value is parameter.default and isinstance(value, int | float | str | Path))
    if is_single and is_default and not parameter.required:
        return value
    descriptor = getattr(parameter, "type_descriptor", None)  # older typers have none, and use no pydantic
    if descriptor is None:
        raise ValueError
    kind, info = descriptor.annotation, descriptor.parameter_info
    if is_single:
        return _read(kind, info, value)
    if value is None and not parameter.required:
        return ()
    if get_origin(kind) is not list or not value:
        raise ValueError
    [item] = get_args(kind)
    several: Any = value
    return [_read(item, info, one) for one in several]


def _read(kind: Any, info: Any, value: Any) -> Any:
    if not isinstance(value, str) or not isinstance(kind, type):
        raise ValueError
    if kind is str:
        return value
    if kind is int or kind is float:
        return _number(kind, info, value)
    if issubclass(kind, Enum):
        return kind(value)
    if issubclass(kind, Path):
        return _path(info, value)
    raise ValueError


def _number(kind: type, info: Any, text: str) -> float:
    if not (_INTEGER if kind is int else _NUMBER).fullmatch(text):
        raise ValueError
    number: float = kind(text)
    if (info.min is not None and number < info.min) or (info.max is not None and number > info.max):
        raise ValueError
    return number


def _number_words(parameter: Any, text: Any) -> str:
    """Return what was given for a number, and what is expected; empty for a parameter of another kind."""
    descriptor: Any = getattr(parameter, "type_descriptor", None)
    kinds: dict[Any, str] = {int: "whole number", float: "number"}
    kind = kinds.get(getattr(descriptor, "annotation", None))
    if kind is None or not isinstance(text, str):
        return ""
    info = descriptor.parameter_info
    least, most = (None if bound is None else f"{bound:,}" for bound in (info.min, info.max))
    bounds = f" from {least} to {most}" if least and most else f" of {least} at least" if least else ""
    return f"{text!r} is no {kind}{bounds}. {info.help or ''}".strip()


def _path(info: Any, text: str) -> Path:
    path = Path(text)
    if info.resolve_path or info.allow_dash or info.writable or info.path_type is not None:
        raise ValueError
    if not path.exists():
        fits = not info.exists
    else:
        fits = (info.dir_okay if path.is_dir() else info.file_okay) and os.access(path, os.R_OK)
    if not fits:
        raise ValueError
    return path


def with_pause(arguments: list[str]) -> list[str]:
    """Return arguments in which a `--watch` without a number has the usual one, as the parser knows no option whose
    value may be left out.

    Example::

        >>> with_pause(["ls", "--watch", "--json"])
        ['ls', '--watch=2', '--json']
    """
    if arguments[:1] not in (["ls"], ["jobs"], ["pools"], ["blocks"]):
        return arguments
    following = [*arguments[1:], "-"]
    return [
        "--watch=2" if one == "--watch" and (after.startswith("-") or after.isalpha()) else one
        for one, after in zip(arguments, following, strict=True)
    ]


def _defaults(arguments: list[str]) -> dict[str, Any]:
    """Return options of a command that settings give it, as click takes them: by command and option.

    Raises:
        SettingsError: the settings are not right.
    """
    if arguments[:2] not in (["head", "start"], ["worker", "start"]):
        return {}
    from grainlike.settings import read_settings

    section, command = arguments[:2]
    keys = read_settings().sections.get(section, {})
    return {section: {command: {key: setting.value for key, setting in keys.items()}}}
