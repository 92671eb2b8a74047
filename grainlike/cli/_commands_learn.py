"""Commands to try grainlike: the demonstration, virtual time, measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grainlike.cli._exits import epilog
from grainlike.cli._root import app, exit_with

_DEMO_EXAMPLES = epilog(
    """
grainlike demo
grainlike demo --workers 2 --picture two-workers.svg
grainlike demo --quick --no-baseline
""",
    failed="a job failed",
    refused="scikit-learn is missing, or a worker did not come",
)

_SIMULATE_EXAMPLES = epilog(
    """
grainlike simulate --jobs 1000 --request "cores=1" --seconds 2 --workers 4 --resources "cores=16"
grainlike simulate --jobs 200 --request "cores=4 memory=8Gi" --seconds 60 --resources "cores=64 memory=64Gi" --json
""",
    refused="no worker could ever run the jobs",
)

_BENCH_EXAMPLES = epilog(
    """
grainlike bench
grainlike bench grainlike pool dask --rounds 5 --picture bench.svg
grainlike bench --workload throughput --size 100000 --json
""",
    failed="a system could not be measured",
    refused="the benchmarks are not installed",
)


def _drawable(picture: Path) -> Path:
    """Return the path of a picture, refused now and not when the work is done and has nowhere to go."""
    if picture.suffix != ".svg":
        raise typer.BadParameter(f"a picture is an SVG file: {picture.name!r} does not end in .svg")
    if not picture.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {str(picture.parent)!r}")
    return picture


def _drawable_if_any(picture: Path | None) -> Path | None:
    return None if picture is None else _drawable(picture)


@app.command("demo", epilog=_DEMO_EXAMPLES, rich_help_panel="Get to know it")
def _demo(
    workers: Annotated[
        int,
        typer.Option(min=0, max=64, help="Worker daemons to start and to split the cores between; 0 embeds one."),
    ] = 0,
    picture: Annotated[
        Path,
        typer.Option(
            metavar="FILE.svg",
            dir_okay=False,
            callback=_drawable,
            help="Where to draw who ran on which core when.",
        ),
    ] = Path("grainlike-demo.svg"),
    baseline: Annotated[
        bool, typer.Option("--baseline/--no-baseline", help="Also run the sweep sequentially, to measure the speed-up.")
    ] = True,
    quick: Annotated[bool, typer.Option("--quick", help="A few fits only, to see that it works.")] = False,
) -> None:
    """Select a model for handwritten digits: a sweep of cross-validated fits on this machine's cores.

    Needs scikit-learn: pip install "grainlike\\[demo]".
    """
    from grainlike.cli.demo import demo

    exit_with(lambda: demo(workers=workers, picture=picture, baseline=baseline, quick=quick))


@app.command("simulate", epilog=_SIMULATE_EXAMPLES, rich_help_panel="Get to know it")
def _simulate(
    jobs: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many jobs, all at once.")] = 1000,
    request: Annotated[str, typer.Option(metavar="TEXT", help="What each job asks for.")] = "cores=1",
    seconds: Annotated[float, typer.Option(min=0.0, max=1e9, help="How long each job runs.")] = 1.0,
    workers: Annotated[int, typer.Option(min=1, max=10_000, help="How many workers.")] = 1,
    resources: Annotated[str, typer.Option(metavar="TEXT", help="What each worker offers.")] = "cores=16",
    picture: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.svg", dir_okay=False, callback=_drawable_if_any, help="Also draw who runs on which core when."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Compute how long jobs would take, by the scheduler itself in virtual time: no job runs, and no worker is
    needed.

    For graphs of unlike jobs, call grainlike.dry_run in Python.
    """
    from grainlike import ResourceSpecError
    from grainlike.cli._simulate import simulate

    def planned() -> int:
        try:
            return simulate(
                jobs=jobs,
                request=request,
                seconds=seconds,
                workers=workers,
                resources=resources,
                as_json=as_json,
                picture=picture,
            )
        except ResourceSpecError as error:
            raise typer.BadParameter(str(error)) from error

    exit_with(planned)


@app.command("bench", epilog=_BENCH_EXAMPLES, rich_help_panel="Get to know it")
def _bench(
    systems: Annotated[
        list[str] | None,
        typer.Argument(help="What to measure. By default all that is installed.", show_default=False),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="How often each system runs.")] = 3,
    workload: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="What to run; may be given again. By default all.", show_default=False),
    ] = None,
    size: Annotated[
        int | None, typer.Option(min=1, max=1_000_000_000, help="How many jobs, or bytes, of the one workload given.")
    ] = None,
    limit: Annotated[float, typer.Option(min=1.0, help="Seconds after which one run of one system is given up.")] = 120,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg", dir_okay=False, callback=_drawable_if_any, help="Also draw the figures."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures of all rounds as JSON.")] = False,
    show: Annotated[bool, typer.Option("--list", help="Show what can be measured, and exit.")] = False,
) -> None:
    """Measure the speed here: the same small workloads on grainlike and on what else is installed, interleaved.

    Give each system the machine for itself: other work on the same cores changes all figures. The benchmarks are not in
    grainlike's wheel: pip install ./benchmarks in its sources.
    """
    from grainlike.cli._bench import load_benchmarks
    from grainlike.cli._exits import REFUSED

    def measured() -> int:
        benchmarks = load_benchmarks()
        if benchmarks is None:
            return REFUSED
        if show:
            return int(benchmarks.show_systems())
        try:
            code = benchmarks.bench(
                systems or [],
                workload or [],
                size=size,
                rounds=rounds,
                limit_s=limit,
                drawing=picture,
                as_json=as_json,
            )
        except benchmarks.ChoiceError as error:
            raise typer.BadParameter(str(error)) from error
        return int(code)

    exit_with(measured)
