"""The whole program: its commands, parsed and run. What a command does is loaded when it is run."""

from __future__ import annotations

import os
import sys
from typing import Any

import grainlike.cli._commands_cluster
import grainlike.cli._commands_learn
import grainlike.cli._commands_look
import grainlike.cli._commands_pools  # noqa: F401 - each adds its commands
from grainlike.cli._exits import OK, USAGE
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
    arguments = with_pause(sys.argv[1:] if arguments is None else arguments)
    try:
        app(arguments, prog_name="grainlike", default_map=_defaults(arguments))
    except SettingsError as error:
        print(f"grainlike: {error}", file=sys.stderr)  # noqa: T201 - a command line speaks
        return USAGE
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else OK
    return OK


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
