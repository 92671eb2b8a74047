"""The whole program: its commands, parsed and run. What a command does is loaded when it is run."""

from __future__ import annotations

import os
import sys

import grainlike.cli._commands_cluster
import grainlike.cli._commands_learn
import grainlike.cli._commands_look  # noqa: F401 - each adds its commands
from grainlike.cli._exits import OK
from grainlike.cli._root import app
from grainlike.subprocesses import reserve_standard_descriptors

__all__ = ["run_app"]


def run_app(arguments: list[str] | None) -> int:
    """Parse and run; return the exit code. Wrong usage has been explained, and is exit code 2."""
    reserve_standard_descriptors()
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # Python found the descriptor closed
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: PTH123, SIM115
    try:
        app(arguments, prog_name="grainlike")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else OK
    return OK
