"""The command line of the comparison of revisions."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from grainlike_bench.compare import facts as machine_facts
from grainlike_bench.revisions._build import BuildError, Environment, build, changed, checkout, commit_of
from grainlike_bench.revisions._report import facts, text
from grainlike_bench.revisions._rows import ROWS, Row, chosen
from grainlike_bench.revisions._run import run

__all__ = ["main"]

ROUNDS = 7

_WORDS = """Measure two revisions in interleaved rounds, and say what changed beyond noise. Both are built, and measured
by the same benchmarks: those that run. Without AFTER it is HEAD; --dirty takes the files of the checkout as they are.
"""


def main(arguments: Sequence[str]) -> int:
    """Compare, and print. Return 0 whatever was found, 1 if a row was not measured, 2 for what cannot be compared."""
    options = _parser().parse_args(arguments)
    try:
        if options.list:
            print("\n".join(f"{row.name:20} {row.words}" for row in ROWS.values()))
            return 0
        if options.before is None:
            raise BuildError("which revision is it to be compared with? compare REV")
        return _compare(options, chosen(options.only))
    except (BuildError, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m grainlike_bench compare", description=_WORDS)
    parser.add_argument(
        "before", nargs="?", metavar="BEFORE", help="a revision, as git knows it: main, HEAD~3, 4f2a9c1"
    )
    parser.add_argument("after", nargs="?", metavar="AFTER", help="another; HEAD")
    parser.add_argument("--dirty", action="store_true", help="take the files of the checkout as they are for AFTER")
    parser.add_argument("--rounds", type=_rounds, default=ROUNDS, help=f"how many pairs; {ROUNDS}")
    parser.add_argument("--only", nargs="+", default=[], metavar="ROW", help="rows, by name or its first part")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep all figures of all rounds")
    parser.add_argument("--list", action="store_true", help="say which rows there are")
    return parser


def _rounds(text: str) -> int:
    rounds = int(text)
    if rounds < 1:
        raise argparse.ArgumentTypeError("one round at the least")
    return rounds


def _compare(options: argparse.Namespace, rows: list[Row]) -> int:
    root = checkout()
    before, after = commit_of(root, options.before), _after(root, options)
    with tempfile.TemporaryDirectory(prefix="grainlike-bench-") as folder:
        # Names of one length: how long a path is can be measured.
        first = _built(root, before, Path(folder, "a"))
        second = first if after == before else _built(root, after, Path(folder, "b"))
        table = run(rows, (first, second), options.rounds, _say)
    if options.json:
        found = facts(table, (first, second), str(machine_facts([], {})["machine"]))
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(text(table, (first, second), options.rounds))
    return int(any(found.failure for found in table))


def _after(root: Path, options: argparse.Namespace) -> str | None:
    """Return the second revision; None for the files as they are.

    Raises:
        BuildError: there is no such revision, or it would not be what is in the checkout.
    """
    if options.dirty and options.after is not None:
        raise BuildError("--dirty compares with the files of the checkout: leave out AFTER")
    if options.dirty:
        return None
    if options.after is not None:
        return commit_of(root, options.after)
    files = changed(root)
    if files:
        shown = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
        raise BuildError(
            f"the checkout has changes that no revision has: {shown}; commit them, measure them as they are with "
            "--dirty, or name the other revision, too"
        )
    return commit_of(root, "HEAD")


def _built(root: Path, commit: str | None, scratch: Path) -> Environment:
    _say(f"building {commit or 'the files of the checkout'}")
    return build(root, commit, scratch)


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
