"""The whole program: its commands, parsed and run. What a command does is loaded when it is run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

import typer

import grainlike.cli._commands_cluster
import grainlike.cli._commands_learn
import grainlike.cli._commands_look
import grainlike.cli._commands_pools
import grainlike.cli._commands_worker
import grainlike.cli.completion._command  # noqa: F401 - each adds its commands
from grainlike.cli._exits import OK, UNREAD, USAGE
from grainlike.cli._root import app
from grainlike.errors import SettingsError
from grainlike.subprocesses import reserve_standard_descriptors

__all__ = ["run_app", "with_pause"]


def run_app(arguments: list[str] | None) -> int:
    """Parse and run; return the exit code. Wrong usage has been explained, and is exit code 2."""
    reserve_standard_descriptors()
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # Python found the descriptor closed
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: PTH123, SIM115
    words = with_pause(sys.argv[1:] if arguments is None else arguments)
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
    typed = copy(app)
    typed.registered_commands = [command for command in app.registered_commands if command.name == word]
    typed.registered_groups = [group for group in app.registered_groups if group.name == word]
    is_enough = typed.registered_commands or typed.registered_groups or words == ["--version"]
    program = typer.main.get_command(typed if is_enough else app)
    _convert_less(program)
    return program


def _convert_less(command: Any) -> None:
    """Let options that are not given be as they are: to convert a value, typer loads pydantic, which takes 70 ms."""
    command.get_params = partial(_parameters, command.get_params)
    for one in getattr(command, "commands", {}).values():
        _convert_less(one)


def _parameters(found: Callable[[Any], list[Any]], context: Any) -> list[Any]:
    parameters = found(context)
    for parameter in parameters:
        if not isinstance(parameter.process_value, partial):
            parameter.process_value = partial(_processed, parameter, parameter.process_value)
    return parameters


def _processed(parameter: Any, process: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    is_single = parameter.nargs == 1 and not getattr(parameter, "multiple", False)
    is_default = value is None or (value is parameter.default and isinstance(value, int | float | str))
    if parameter.required or not is_single or not is_default:
        return process(context, value)
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


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
