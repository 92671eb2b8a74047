"""Runs one simulated world and prints what happened: `python -m simtest --seed 17 --workload poison`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from time import perf_counter

from grainlike.simulation import CALM
from simtest._outcome import Outcome
from simtest._policies import compare
from simtest._policies import describe as describe_policies
from simtest._simulate import simulate
from simtest._workloads import WORKLOADS


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 when every promise was kept, 1 when one was broken."""
    options = _parser().parse_args(arguments)
    if options.policies:
        for line in describe_policies(compare(options.seed)):
            _say(line)
        return 0
    began = perf_counter()
    outcome = simulate(
        options.seed,
        options.workload,
        workers=options.workers,
        jobs=options.jobs,
        faults=CALM if options.calm else None,
        head_crash=options.head_crash,
        judged=not options.unjudged,
        show=_say if options.journal else None,
    )
    for line in describe(outcome, perf_counter() - began):
        _say(line)
    return 1 if outcome.violations else 0


def describe(outcome: Outcome, seconds: float) -> list[str]:
    """Return the outcome as lines of text, after `seconds` of real time."""
    waited, job = outcome.passed_over
    lines = [
        f"workload     {outcome.workload}, seed {outcome.seed}: {outcome.jobs} jobs, {outcome.workers} workers",
        f"makespan     {outcome.makespan:.3f} s, {outcome.ratio:.3f} x the lower bound of {outcome.lower_bound:.3f} s",
        f"utilisation  {outcome.utilisation:.1%} of the cores",
        f"speed        {outcome.steps} events, {outcome.steps / seconds:,.0f} events/s",
        f"passed over  {waited:.3f} s at most" + (f" (job {job})" if job else ""),
        "seen         " + ", ".join(f"{kind} {count}" for kind, count in outcome.seen.items()),
    ]
    wide = outcome.widest_start
    if wide is not None:
        lines.insert(3, f"widest job   starts at {wide:.3f} s, {wide / outcome.makespan:.2f} of the makespan")
    if outcome.digest:
        lines.append(f"digest       {outcome.digest}")
    return lines + [f"VIOLATED     {broken}" for broken in outcome.violations]


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m simtest", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="seeds all that is not given (default 0)")
    parser.add_argument("--workload", default="any", choices=["any", *WORKLOADS], help="default: any")
    parser.add_argument("--workers", type=int, help="how many nodes (default: drawn)")
    parser.add_argument("--jobs", type=int, help="how many jobs (default: drawn)")
    parser.add_argument("--calm", action="store_true", help="no faults")
    parser.add_argument(
        "--head-crash",
        type=float,
        metavar="SECONDS",
        help="mean seconds after which the head dies for good; 0 for never (default: drawn)",
    )
    parser.add_argument("--unjudged", action="store_true", help="only measure, several times as fast")
    parser.add_argument(
        "--policies", action="store_true", help="compare where jobs that need large values could run, and nothing else"
    )
    parser.add_argument("--journal", action="store_true", help="print every event and every action")
    return parser


if __name__ == "__main__":
    sys.exit(main())
