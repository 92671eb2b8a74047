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
    words = sys.argv[1:] if arguments is None else arguments
    if words[:2] == ["completion", "values"]:  # for a key that was pressed: no parser is loaded
        from grainlike.cli.completion import print_values

        return print_values(words[2:])
    if arguments is None:
        gc.disable()  # until the command runs: modules leave no garbage, and it would look through all that they bring
    from grainlike.cli._app import run_app

    try:
        return run_app(arguments)
    finally:
        if arguments is None:  # the process ends now; the collector would look through every module that was loaded
            gc.freeze()
