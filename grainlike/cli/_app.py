"""The commands and their options; what they do is loaded when they are run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from grainlike import __version__
from grainlike.cli._exits import INTERRUPTED, OK

__all__ = ["run_app"]

_EXAMPLES = """[bold]Examples[/bold]

[dim]# see it work, on the cores of this machine[/dim]
grainlike demo

[dim]# serve the head that runs here with all cores that this process may use[/dim]
grainlike worker start

"grainlike COMMAND --help" shows more.
"""

_WORKER_EXAMPLES = """[bold]Examples[/bold]

grainlike worker start
grainlike worker start --head tcp://127.0.0.1:4711 --name n1
grainlike worker start --resources "cores=16 memory=64Gi gpus=2"
grainlike worker start --resources "cores=[6,7] licence=1"

[bold]Exit codes[/bold]

0 the head closed, or the worker was told to stop
2 wrong usage
3 no head there, or it refused
"""

_DEMO_EXAMPLES = """[bold]Examples[/bold]

grainlike demo
grainlike demo --workers 2 --picture two-workers.svg
grainlike demo --quick --no-baseline

[bold]Exit codes[/bold]

0 success
1 a job failed
2 wrong usage
3 scikit-learn is missing, or a worker did not come
"""

_SIMULATE_EXAMPLES = """[bold]Examples[/bold]

grainlike simulate --jobs 1000 --request "cores=1" --seconds 2 --workers 4 --resources "cores=16"
grainlike simulate --jobs 200 --request "cores=4 memory=8Gi" --seconds 60 --resources "cores=64 memory=64Gi" --json

[bold]Exit codes[/bold]

0 success
2 wrong usage
3 no worker could ever run the jobs
"""

_SETTINGS = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="grainlike",
    help="Async-native delayed objects on exact, enforced resources.",
    epilog=_EXAMPLES,
    rich_markup_mode="rich",
    no_args_is_help=True,
    add_completion=False,
    context_settings=_SETTINGS,
    pretty_exceptions_enable=False,
)
worker = typer.Typer(help="Serve this machine's slots to a head.", no_args_is_help=True, context_settings=_SETTINGS)
app.add_typer(worker, name="worker", rich_help_panel="Run a cluster")


class LogLevel(StrEnum):
    """How much a worker tells."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def run_app(arguments: list[str] | None) -> int:
    """Parse and run; return the exit code. Wrong usage has been explained, and is exit code 2."""
    try:
        app(arguments, prog_name="grainlike")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else OK
    return OK


def _exit_with(run: Callable[[], int]) -> NoReturn:
    """End with the exit code of a command, or of Ctrl-C."""
    try:
        code = run()
    except KeyboardInterrupt:
        print("grainlike: interrupted", file=sys.stderr)  # noqa: T201 - a command line speaks
        code = INTERRUPTED
    raise typer.Exit(code)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"grainlike {__version__}")  # noqa: T201
        raise typer.Exit


def _drawable(picture: Path) -> Path:
    """The path of a picture, refused now and not when the work is done and has nowhere to go."""
    if picture.suffix != ".svg":
        raise typer.BadParameter(f"a picture is an SVG file: {picture.name!r} does not end in .svg")
    if not picture.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {str(picture.parent)!r}")
    return picture


def _drawable_if_any(picture: Path | None) -> Path | None:
    return None if picture is None else _drawable(picture)


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Async-native delayed objects on exact, enforced resources."""


@worker.command("start", epilog=_WORKER_EXAMPLES)
def _worker_start(
    head: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS_OR_ACCESS_FILE", help="Whom to serve. By default the head that runs here."),
    ] = None,
    resources: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What to offer. By default the cores that this process may run on."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="What the worker is called. By default the host's name.")] = None,
    log_level: Annotated[LogLevel, typer.Option(help="How much to tell on standard error.")] = LogLevel.INFO,
) -> None:
    """Run a worker in the foreground until its head closes, or SIGTERM or Ctrl-C.

    Cores that this machine does not have are logical: they are given out and shown, but never pinned.
    """
    from grainlike.cli._worker import start_worker

    _exit_with(lambda: start_worker(head=head, resources=resources, name=name, log_level=log_level.value))


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
    from grainlike.cli._demo import demo

    _exit_with(lambda: demo(workers=workers, picture=picture, baseline=baseline, quick=quick))


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
    """How long would it take? Ask the scheduler itself, in virtual time: no job runs, and no worker is needed.

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

    _exit_with(planned)
