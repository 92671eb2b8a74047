"""Stages of the demonstration: the sweep on its workers, its report and picture, and the sequential run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from grainlike.cli._exits import FAILED, OK, REFUSED
from grainlike.cli._own_workers import WorkerFailedError, own_workers, shares
from grainlike.cli.demo._baseline import run_baseline
from grainlike.cli.demo._jobs import Candidate
from grainlike.cli.demo._report import DemoWorkers, drawn, final, intro, other_load, speed_up, table
from grainlike.cli.demo._sweep import Fit, Sweep, SweepOutcome
from grainlike.errors import GrainlikeError
from grainlike.executor import Executor, offer_with

__all__ = ["run_stages"]

START_S = 60.0
"""Seconds that the workers may take to join."""

MEMBERS, MEMBERS_QUICK = 60, 4
"""Models in the final committee."""


def run_stages(tried: list[Candidate], *, workers: int, picture: Path, baseline: bool, quick: bool, load: float) -> int:
    """Run all stages, and return the exit code; `load` is that of the machine before (`os.getloadavg`)."""
    console = Console(highlight=False)
    try:
        site, outcome = anyio.run(_sweep, console, tried, workers, quick)
        console.print(table(outcome), final(outcome, _members(quick)), "", sep="\n")
        picture.write_text(drawn(outcome, site), encoding="utf-8")
        console.print(f"Picture: [bold]{picture}[/bold] (each bar from what its job read back about itself)")
        if baseline:
            core = site.real_cores[0]
            with _progress(console, "one by one", len(outcome.fits)) as step:
                measured = run_baseline(core, quick=quick, on_fit=lambda: step(""))
            console.print(speed_up(outcome, measured, site))
        if note := other_load(load, os.cpu_count() or 1):
            console.print(note)
    except (WorkerFailedError, TimeoutError) as error:
        _complain(str(error) or f"the workers were not there after {START_S:g} s")
        return REFUSED
    except (GrainlikeError, OSError, RuntimeError) as error:
        _complain(str(error))
        return FAILED
    return OK


async def _sweep(
    console: Console, tried: list[Candidate], workers: int, quick: bool
) -> tuple[DemoWorkers, SweepOutcome]:
    """Open an executor with its workers, and run the sweep on them."""
    if workers == 0:
        async with Executor() as executor:
            return await _run(console, executor, tried, quick)
    async with Executor(listen="tcp://127.0.0.1:0") as executor:
        assert executor.address is not None
        offer = offer_with()
        offers = shares([] if offer is None else list(offer.cores), workers)
        async with own_workers(executor.address, offers):
            with anyio.fail_after(START_S):
                await executor.wait_for_workers(workers)
            return await _run(console, executor, tried, quick)


async def _run(
    console: Console, executor: Executor, tried: list[Candidate], quick: bool
) -> tuple[DemoWorkers, SweepOutcome]:
    site = DemoWorkers(executor.workers())
    sweep = Sweep(tried, width=site.widest, members=_members(quick))
    console.print(intro(site))
    best: list[Fit] = []
    with _progress(console, "in parallel", len(tried)) as step:

        def show(fit: Fit) -> None:
            best[:] = [max([*best, fit], key=lambda one: one.mean)]
            step(f"best so far {best[0].mean:.1%}")

        return site, await sweep.run(show)


@contextmanager
def _progress(console: Console, what: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show a bar for `total` candidates; the function that is given moves it by one and sets the text beside it."""
    columns = [
        SpinnerColumn(finished_text="✓"),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[beside]}"),
    ]
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(what, total=total, beside="")
        yield lambda beside: progress.update(task, advance=1, beside=beside)


def _members(quick: bool) -> int:
    return MEMBERS_QUICK if quick else MEMBERS


def _complain(text: str) -> None:
    Console(stderr=True, highlight=False).print(f"grainlike demo: {text}", markup=False, soft_wrap=True)
