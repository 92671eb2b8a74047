"""Report of the demonstration: every number is measured, none is remembered from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from grainlike.cli.demo._baseline import Baseline
from grainlike.cli.demo._jobs import FOLDS
from grainlike.cli.demo._sweep import SweepOutcome
from grainlike.graph import Info
from grainlike.jobs import WorkerInfo
from grainlike.observe import Lane, timeline

__all__ = ["DemoWorkers", "drawn", "final", "intro", "other_load", "speed_up", "table"]

_TOP = 8

_BUSY = 0.5
"""Load of other programs, as a share of the cores, from which on the times of a run are not reliable."""


class DemoWorkers:
    """The workers of a run."""

    def __init__(self, workers: Sequence[WorkerInfo]) -> None:
        self.workers = sorted(workers, key=lambda worker: worker.name)
        self.lanes = [Lane(worker.name, core) for worker in workers for core in worker.resources.cores]
        self.logical = [core for worker in workers for core in worker.logical]
        self.real_cores = [core for worker in workers for core in worker.resources.cores if core not in worker.logical]
        self.widest = max(len(worker.resources.cores) for worker in workers)


def intro(site: DemoWorkers) -> str:
    """Return where the sweep is about to run."""
    lines = [
        f"  each candidate in one core, then the best one again in {_cores(site.widest)}. The workers:",
        *(f"  {worker.name}: {_named(worker.resources.cores)}, process {worker.pid}" for worker in site.workers),
    ]
    if site.logical:
        lines.append(f"  ({_named(site.logical)}: logical, given out and shown, but not pinned)")
    return "\n".join(lines) + "\n"


def table(outcome: SweepOutcome) -> Table:
    """Return the best models."""
    best = outcome.ranked()[:_TOP]
    shown = Table(title=f"The best {len(best)} of {len(outcome.fits)}", title_justify="left", box=SIMPLE_HEAD)
    shown.add_column("", justify="right", style="dim")
    shown.add_column("model")
    shown.add_column("accuracy", justify="right")
    shown.add_column("seconds", justify="right")
    shown.add_column("ran on", style="dim")
    for place, fit in enumerate(best, 1):
        seconds = f"{fit.told.usage.wall_s:.2f}" if fit.told.usage else ""
        shown.add_row(str(place), str(fit.candidate), f"{fit.mean:.2%}", seconds, _where(fit.told))
    return shown


def final(outcome: SweepOutcome, members: int) -> str:
    """Return how the best model did, trained on all cores."""
    told = outcome.final
    used = (
        f" in {told.usage.wall_s:.2f} s ({told.usage.cores_busy:.1f} cores busy on average: processor time over time)"
        if told.usage
        else ""
    )
    return (
        f"The winner, [bold]{outcome.chosen}[/bold], as a committee of {members},\n"
        f"  trained on {_ran_on(told)}{used},\n"
        f"  reads {outcome.right} of {outcome.unseen} images right that it had never seen "
        f"([bold]{outcome.right / outcome.unseen:.1%}[/bold])."
    )


def drawn(outcome: SweepOutcome, site: DemoWorkers) -> str:
    """Return the picture of the run."""
    return timeline(
        outcome.spans(),
        title="Who ran on which core",
        subtitle=(
            f"{len(outcome.fits)} candidates × {FOLDS} folds on {_all_cores(site)} in {outcome.seconds:.1f} s, "
            f"then the best one again in {_cores(site.widest)}"
        ),
        lanes=site.lanes,
        note="deeper: better accuracy",
    )


def speed_up(outcome: SweepOutcome, measured: Baseline, site: DemoWorkers) -> str:
    """Return in words how the sweep compares with the sequential one, and whether they agree."""
    same = sum(fit.scores == scores for fit, scores in zip(outcome.fits, measured.scores, strict=True))
    count = len(outcome.fits)
    agree = "All scores are equal." if same == count else f"Only {same} of {count} candidates have equal scores!"
    held = f"on {_named(measured.affinity)}" if measured.affinity else "not pinned"
    width = "1 thread" if measured.threads == 1 else f"{measured.threads} threads"
    return (
        f"\n  one by one  {measured.seconds:6.2f} s  (one process {held}, {width}, without grainlike)\n"
        f"  in parallel {outcome.seconds:6.2f} s  ({_all_cores(site)})\n"
        f"  speed-up    [bold]{measured.seconds / outcome.seconds:6.2f} ×[/bold]  (both with starting Python and "
        f"loading scikit-learn)\n  {agree}"
    )


def other_load(load: float, cores: int) -> str:
    """Return a note on a machine that was busy before the run, or an empty text for one that was not.

    `load` is the average number of processes that wanted a core in the last minute (`os.getloadavg`).
    """
    if load < _BUSY * cores:
        return ""
    return (
        f"\n  This machine was busy when the demonstration began: load {load:.1f} on {_cores(cores)}. Other programs\n"
        "  took their share of the cores, so the speed-up and the cores that were busy are lower, or vary more,\n"
        "  than on a quiet machine."
    )


def _where(told: Info) -> str:
    return f"{told.worker}, {_ran_on(told)}"


def _ran_on(told: Info) -> str:
    """Return the cores that the job could run on, as it read them back itself."""
    return _named(told.receipt.affinity) if told.receipt and told.receipt.affinity else "cores unknown"


def _named(cores: Sequence[int]) -> str:
    return f"core{'s' if len(cores) > 1 else ''} {', '.join(map(str, cores))}"


def _all_cores(site: DemoWorkers) -> str:
    return _cores(len(set(site.real_cores))) + (f" (and {len(site.logical)} logical)" if site.logical else "")


def _cores(count: int) -> str:
    return "1 core" if count == 1 else f"{count} cores"
