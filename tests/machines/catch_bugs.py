"""Plant bugs, of schedulers, stores, recovery of a head, its listener and the fleet, in copies of the sources, and see
each caught.

For each it runs the suite that must see it, and prints a row of a table.

::

    make bugs
    python tests/machines/catch_bugs.py --jobs 2 skip_a_release ignore_a_lease
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from door_bugs import DOOR_BUGS, DOOR_SUITES
from fleet_bugs import FLEET_BUGS, FLEET_SUITES
from head_bugs import HEAD_BUGS
from node_bugs import NODE_BUGS
from recovery_bugs import RECOVERY_BUGS, RECOVERY_SUITES
from seeded_bugs import SUITES, Bug, plant
from store_bugs import STORE_BUGS, STORE_SUITES
from value_bugs import VALUE_BUGS, VALUE_SUITES

ALL_BUGS = (*HEAD_BUGS, *NODE_BUGS, *RECOVERY_BUGS, *DOOR_BUGS, *FLEET_BUGS, *VALUE_BUGS, *STORE_BUGS)
ALL_SUITES = {**SUITES, **RECOVERY_SUITES, **DOOR_SUITES, **FLEET_SUITES, **VALUE_SUITES, **STORE_SUITES}

SEEDS = 2000
"""How many worlds a bug may take to be seen."""

LIMIT_S = 240
"""After that, the suite hangs, which is not what its users were promised of it."""


@dataclass(frozen=True)
class Finding:
    """What a suite said: `ok` is green; `words` are its own."""

    ok: bool
    broken: bool
    words: str
    seconds: float


def try_suite(bug: Bug | None, suite: str, seeds: int = SEEDS) -> Finding:
    """Run a suite on the sources with the bug in them. `broken`: it could not even begin, so it says nothing."""
    began = monotonic()
    with tempfile.TemporaryDirectory(prefix="grainlike-bug-") as scratch:
        tree = Path(scratch)
        plant(bug, tree)
        env = {**os.environ, "GRAINLIKE_TEST_SEEDS": str(seeds), "GRAINLIKE_TEST_SHRINK": "0"}
        env["PYTHONPATH"] = os.pathsep.join([str(tree), str(tree / "worker")])
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-xq",
            "--tb=line",
            "-p",
            "no:cacheprovider",
            "--hypothesis-seed=0",
            ALL_SUITES[suite],
        ]
        done = subprocess.run(
            command,
            cwd=tree,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    return Finding(done.returncode == 0, done.returncode not in (0, 1), _words(done.stdout), monotonic() - began)


def _words(output: str) -> str:
    """The first complaint of a run of pytest."""
    said = re.search(r"^(?:E  +|.*?: )?((?:AssertionError|\w+Error|Failed)\b.*)$", output, re.MULTILINE)
    return said.group(1) if said else output.strip().splitlines()[-1] if output.strip() else ""


def line_of(bug: Bug, found: Finding) -> str:
    """A row of the table."""
    verdict = "BROKEN" if found.broken else "MISSED" if found.ok else "caught"
    return f"{verdict}  {bug.room:<12} {bug.name:<34} {bug.suite:<8} {found.seconds:5.1f} s  {found.words[:120]}"


def hunt(bugs: Sequence[Bug], jobs: int, seeds: int) -> Iterator[tuple[Bug, Finding]]:
    """Try one after another, so many at a time."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from zip(bugs, pool.map(lambda bug: try_suite(bug, bug.suite, seeds), bugs), strict=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every bug is caught, and every suite is green without one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="default: all of them")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many worlds a bug may take")
    parser.add_argument("--list", action="store_true", help="say what each breaks, and run nothing")
    options = parser.parse_args(arguments)
    unknown = {*options.names} - {bug.name for bug in ALL_BUGS}
    if unknown:
        parser.error(f"no bug is named {', '.join(sorted(unknown))}")
    bugs = [bug for bug in ALL_BUGS if not options.names or bug.name in options.names]
    if options.list:
        for bug in bugs:
            print(f"{bug.room:<12} {bug.name:<34} {bug.suite:<8} {bug.breaks}")
        return 0
    green = True
    for suite in dict.fromkeys(bug.suite for bug in bugs):
        found = try_suite(None, suite, min(options.seeds, 100))
        green &= found.ok
        print(
            f"{'green ' if found.ok else 'RED   '}  without a bug: {suite}  {'' if found.ok else found.words}",
            flush=True,
        )
    caught = 0
    for bug, found in hunt(bugs, options.jobs, options.seeds):
        caught += not found.ok and not found.broken
        print(line_of(bug, found), flush=True)
    print(f"{caught} of {len(bugs)} caught")
    return 0 if green and caught == len(bugs) else 1


if __name__ == "__main__":
    sys.exit(main())
