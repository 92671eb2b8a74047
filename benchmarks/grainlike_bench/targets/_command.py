"""The command line of the targets."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from grainlike_bench.targets._goals import GOALS, chosen
from grainlike_bench.targets._parts import PARTS
from grainlike_bench.targets._report import rewrite, text
from grainlike_bench.targets._run import Run, run
from grainlike_bench.targets._systems import ROWS

__all__ = ["main"]

SYSTEMS_S = 100
"""About how long a round of all systems takes."""


def main(arguments: Sequence[str]) -> int:
    """Measure, and print the table; 0 whatever was found, 2 for a wrong word."""
    parser = argparse.ArgumentParser(prog="python -m grainlike_bench targets", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each side of a comparison runs; 3")
    parser.add_argument("--only", nargs="+", default=[], metavar="ROW", help="rows, by name or its first part")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep all figures of all rounds")
    parser.add_argument("--read", type=Path, metavar="FILE", help="measure nothing; take what --json kept")
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="write the tables between the marks of a page")
    parser.add_argument("--list", action="store_true", help="say which rows there are, and how each is measured")
    options = parser.parse_args(arguments)
    if options.markdown and options.only:
        parser.error("--markdown writes all rows: leave out --only")
    try:
        goals = chosen(options.only)
        if options.list:
            print(_listed())
            return 0
        done = Run.read(options.read) if options.read else run(goals, options.rounds, _say)
        if options.json:
            done.write(options.json)
        if options.markdown:
            rewrite(options.markdown, goals, done)
        print(text(goals, done))
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _listed() -> str:
    part_of = {row: f"{name}, about {part.seconds} s" for name, part in PARTS.items() for row in part.rows}
    part_of |= dict.fromkeys(ROWS, f"grainlike bench, about {SYSTEMS_S} s a round of all systems")
    return "\n".join(f"{goal.row:16} {goal.words:40} {part_of[goal.row]}" for goal in GOALS)


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
