"""Command line: parses what was typed, and prints what the rooms below return.

Answers: what `grainlike ...` does (`main`), with exit code 0 for success, 1 when a job failed, 2 for wrong usage, 3 for
no head, no worker, or refused.

Never decides, schedules or draws. A command loads what it needs when it is run, so that `--help` answers at once. The
worker is started by name, as everywhere. The demonstration's jobs (`demo._jobs`) live here too, as a user's would in
their own program.
"""

import gc
import sys

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run the program with `arguments` (by default the command line's), and return its exit code."""
    if arguments is not None:
        return _run(arguments)
    gc.disable()  # until the command runs: modules leave no garbage, and it would look through all that they bring
    try:
        return _run(sys.argv[1:])
    finally:
        gc.freeze()  # the process ends now, and would be looked through once more


def _run(words: list[str]) -> int:
    if words[:2] == ["completion", "values"]:  # for a key that was pressed: no parser is loaded
        from grainlike.cli.completion import print_values

        return print_values(words[2:])
    from grainlike.cli._app import run_app

    return run_app(words)
