"""The whole program: its commands, parsed and run. What a command does is loaded when it is run."""

from __future__ import annotations

import grainlike.cli._commands_cluster
import grainlike.cli._commands_learn
import grainlike.cli._commands_look  # noqa: F401 - each adds its commands
from grainlike.cli._exits import OK
from grainlike.cli._root import app

__all__ = ["run_app"]


def run_app(arguments: list[str] | None) -> int:
    """Parse and run; return the exit code. Wrong usage has been explained, and is exit code 2."""
    try:
        app(arguments, prog_name="grainlike")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else OK
    return OK
