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

_ACCESS_EXAMPLES = """[bold]Examples[/bold]

grainlike access generate
grainlike access generate --directory ~/shared/cluster --address tcp://login1:7777

[bold]Exit codes[/bold]

0 success
2 wrong usage, or files are there already
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

_DOCTOR_EXAMPLES = """[bold]Examples[/bold]

grainlike doctor
grainlike doctor --head ~/cluster.json

[bold]Exit codes[/bold]

0 nothing is bad
1 something is; it says what to do
2 wrong usage
"""

_ASK_CODES = """[bold]Exit codes[/bold]

0 success
1 there is no such job
2 wrong usage
3 no head there, or it refused
"""

_LS_EXAMPLES = f"""[bold]Examples[/bold]

grainlike ls
grainlike ls --head tcp://login1:7777 --json

{_ASK_CODES}"""

_JOBS_EXAMPLES = f"""[bold]Examples[/bold]

grainlike jobs
grainlike jobs --most 1000 --json

{_ASK_CODES}"""

_EXPLAIN_EXAMPLES = f"""[bold]Examples[/bold]

grainlike explain 17
grainlike explain 17 --json

{_ASK_CODES}"""

_CANCEL_EXAMPLES = f"""[bold]Examples[/bold]

grainlike cancel 17

{_ASK_CODES}"""

_LOGS_EXAMPLES = f"""[bold]Examples[/bold]

grainlike logs 17
grainlike logs -f 17
grainlike logs --json 17 | jq -r .line

{_ASK_CODES}"""

_HEAD_EXAMPLES = """[bold]Examples[/bold]

grainlike head start
grainlike head start --listen tcp://0.0.0.0:7777 --detach
grainlike head start --access ~/cluster/head.json
grainlike head start --run-once

[bold]Exit codes[/bold]

0 it was told to stop, or was done
2 wrong usage
3 it cannot listen there
"""

_STOP_EXAMPLES = """[bold]Examples[/bold]

grainlike head stop
grainlike head stop --head tcp://login1:7777

[bold]Exit codes[/bold]

0 it has stopped
1 it is part of a program, and ends with that
2 wrong usage
3 no head there, or it refused
"""

_STATUS_EXAMPLES = f"""[bold]Examples[/bold]

grainlike head status
grainlike head status --head ~/cluster/client.json --json

{_ASK_CODES}"""

_BENCH_EXAMPLES = """[bold]Examples[/bold]

grainlike bench
grainlike bench grainlike pool dask --rounds 5 --picture bench.svg
grainlike bench --workload throughput --size 100000 --json

[bold]Exit codes[/bold]

0 success
1 a system could not be measured
2 wrong usage
"""

_SUBMIT_EXAMPLES = """[bold]Examples[/bold]

[dim]# on a worker of the head that runs here[/dim]
grainlike submit -r "gpus=1 cores=4" -- python train.py --seed 1

[dim]# many at once: a line of the file is a command, or "-r TEXT -- COMMAND"[/dim]
grainlike submit -r "cores=1" --file commands.txt

[dim]# without a head: on slots of this machine, until all have run[/dim]
grainlike submit --run-once --resources "gpu0=1 gpu1=1" -r "gpu0=1" --file commands.txt

[bold]Exit codes[/bold]

0 all commands ended with exit code 0
1 a command failed
2 wrong usage
3 no head there, or it refused
"""

_CACHE_EXAMPLES = """[bold]Examples[/bold]

grainlike cache ls
grainlike cache rm fit --version v1
grainlike cache rm --all --older 30

[bold]Exit codes[/bold]

0 success
1 there was nothing to remove
2 wrong usage
3 the directory cannot be read, or others can write to it
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
access = typer.Typer(help="Who may join a cluster.", no_args_is_help=True, context_settings=_SETTINGS)
app.add_typer(access, name="access", rich_help_panel="Run a cluster")

head_ = typer.Typer(help="The process that owns a queue.", no_args_is_help=True, context_settings=_SETTINGS)
app.add_typer(head_, name="head", rich_help_panel="Run a cluster")

cache = typer.Typer(help="Results that are kept on disk.", no_args_is_help=True, context_settings=_SETTINGS)
app.add_typer(cache, name="cache", rich_help_panel="Look at a cluster")

_Head = Annotated[
    str | None,
    typer.Option("--head", metavar="ADDRESS_OR_ACCESS_FILE", help="Whom to ask. By default the head that runs here."),
]
_Insecure = Annotated[
    bool, typer.Option("--insecure", help="Ask a head that has no TLS, on this machine's loopback alone.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
_Job = Annotated[int, typer.Argument(min=1, metavar="JOB", help="The job's number, as `grainlike jobs` shows it.")]


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
    context: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FACTORY", help="A context manager around each process that runs jobs."),
    ] = None,
    echo_output: Annotated[bool, typer.Option("--echo-output", help="Also show here what jobs print.")] = False,
    log_level: Annotated[LogLevel, typer.Option(help="How much to tell on standard error.")] = LogLevel.INFO,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Serve a head that has no TLS, on this machine's loopback alone.")
    ] = False,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait for a head that does not listen yet, or has no access file yet."),
    ] = False,
) -> None:
    """Run a worker in the foreground until its head closes, or SIGTERM or Ctrl-C.

    Cores that this machine does not have are logical: they are given out and shown, but never pinned.
    """
    from grainlike.cli._worker import start_worker

    _exit_with(
        lambda: start_worker(
            head=head,
            resources=resources,
            name=name,
            log_level=log_level.value,
            context=context,
            echo_output=echo_output,
            insecure=insecure,
            wait=wait,
        )
    )


@access.command("generate", epilog=_ACCESS_EXAMPLES)
def _access_generate(
    directory: Annotated[
        Path | None,
        typer.Option(metavar="D", file_okay=False, help="Where to write. By default beside those of running heads."),
    ] = None,
    address: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="Where workers will find the head; may be given again. By default it is written once a head listens.",
            show_default=False,
        ),
    ] = None,
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="What the cluster is called.")] = None,
    days: Annotated[float, typer.Option(min=0.01, max=36_500, help="How long the certificates hold.")] = 1095,
) -> None:
    """Make the access files of a new cluster: head.json, worker.json and client.json.

    Each is a key to its role: whoever has the file may be that. Copy worker.json to where workers run, with mode 600.
    """
    from grainlike.cli._access import generate

    def generated() -> int:
        try:
            return generate(directory, address or [], cluster, days)
        except (ValueError, OSError) as error:
            raise typer.BadParameter(str(error)) from error

    _exit_with(generated)


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


@app.command("ls", epilog=_LS_EXAMPLES, rich_help_panel="Look at a cluster")
def _ls(head: _Head = None, as_json: _Json = False, insecure: _Insecure = False) -> None:
    """List the workers of a head."""
    from grainlike.cli._ask import asking, list_workers

    _exit_with(lambda: asking(head, insecure, lambda caller: list_workers(caller, as_json=as_json)))


@app.command("jobs", epilog=_JOBS_EXAMPLES, rich_help_panel="Look at a cluster")
def _jobs(
    head: _Head = None,
    most: Annotated[int, typer.Option(min=1, max=10_000, help="How many to show, the oldest first.")] = 100,
    as_json: _Json = False,
    insecure: _Insecure = False,
) -> None:
    """List the jobs of a head that have not ended."""
    from grainlike.cli._ask import asking, list_jobs

    _exit_with(lambda: asking(head, insecure, lambda caller: list_jobs(caller, most=most, as_json=as_json)))


@app.command("explain", epilog=_EXPLAIN_EXAMPLES, rich_help_panel="Look at a cluster")
def _explain(job: _Job, head: _Head = None, as_json: _Json = False, insecure: _Insecure = False) -> None:
    """Say where a job stands and what it waits for."""
    from grainlike.cli._ask import asking, explain_job

    _exit_with(lambda: asking(head, insecure, lambda caller: explain_job(caller, job, as_json=as_json)))


@app.command("cancel", epilog=_CANCEL_EXAMPLES, rich_help_panel="Look at a cluster")
def _cancel(job: _Job, head: _Head = None, insecure: _Insecure = False) -> None:
    """Cancel a job: whoever awaits it hears that it was."""
    from grainlike.cli._ask import asking, cancel_job

    _exit_with(lambda: asking(head, insecure, lambda caller: cancel_job(caller, job)))


@app.command("logs", epilog=_LOGS_EXAMPLES, rich_help_panel="Look at a cluster")
def _logs(
    job: _Job,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    head: _Head = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print each line as JSON.")] = False,
    insecure: _Insecure = False,
) -> None:
    """Show what a job has printed. Its workers keep that for a while after it has ended."""
    from grainlike.cli._ask import asking, show_logs

    _exit_with(lambda: asking(head, insecure, lambda caller: show_logs(caller, job, follow=follow, as_json=as_json)))


@app.command("submit", epilog=_SUBMIT_EXAMPLES, rich_help_panel="Run a cluster")
def _submit(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- COMMAND...", help="The program, with arguments.", show_default=False),
    ] = None,
    request: Annotated[
        list[str] | None,
        typer.Option("-r", "--request", metavar="TEXT", help="What each command asks for; several are put together."),
    ] = None,
    file: Annotated[
        typer.FileText | None, typer.Option(metavar="FILE", help="Commands, one a line; - for standard input.")
    ] = None,
    run_once: Annotated[
        bool, typer.Option("--run-once", help="Without a head: run on slots of this machine, then end.")
    ] = False,
    resources: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="With --run-once: the slots. By default the cores of this process."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[=VALUE]", help="A variable for the commands, from here if it has no value."),
    ] = None,
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Leave out parts of a request that have no value, with a warning.")
    ] = False,
    head: _Head = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print only what became of each; their output goes to standard error."),
    ] = False,
    insecure: _Insecure = False,
) -> None:
    """Run commands as jobs on exact slots, show what they print, and wait for them.

    They run in this folder, which their worker must have too. Ctrl-C ends what has not ended.
    """
    from grainlike.cli._submit import UsageError, submit

    def submitted() -> int:
        try:
            return submit(
                command or [],
                requests=request or [],
                file=file,
                offer=resources,
                run_once=run_once,
                head=head,
                insecure=insecure,
                env=env or [],
                lenient=lenient,
                as_json=as_json,
            )
        except UsageError as error:
            raise typer.BadParameter(str(error)) from error

    _exit_with(submitted)


@head_.command("start", epilog=_HEAD_EXAMPLES)
def _head_start(
    listen: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen. By default on all interfaces, at any free port.")
    ] = "tcp://0.0.0.0:0",
    access: Annotated[
        Path | None,
        typer.Option(metavar="HEAD_JSON", dir_okay=False, help="Be the head of a cluster that has files."),
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Go on in the background, once it listens.")] = False,
    run_once: Annotated[
        bool,
        typer.Option("--run-once", help="End, with its workers, when the last program that had jobs has left."),
    ] = False,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen without TLS, on this machine's loopback alone.")
    ] = False,
    log_level: Annotated[LogLevel, typer.Option(help="How much to tell on standard error.")] = LogLevel.INFO,
    ready: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run a head: programs connect to it, workers serve it. It stops at SIGTERM, Ctrl-C or `grainlike head stop`.

    What workers and clients need to be let in is written to access files that only you can read.
    """
    from grainlike.cli._head import start_detached, start_head

    def started() -> int:
        try:
            if detach:
                files = [] if access is None else ["--access", str(access.expanduser().absolute())]
                flags = ["--insecure"] * insecure + ["--run-once"] * run_once
                return start_detached(["--listen", listen, "--log-level", log_level.value, *files, *flags])
            return start_head(
                listen, access, insecure=insecure, log_level=log_level.value, run_once=run_once, ready=ready
            )
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    _exit_with(started)


@head_.command("stop", epilog=_STOP_EXAMPLES)
def _head_stop(head: _Head = None, insecure: _Insecure = False) -> None:
    """End a head that was started with `grainlike head start`. Jobs that still run are cancelled."""
    from grainlike.cli._ask import asking
    from grainlike.cli._head import stop_head

    _exit_with(lambda: asking(head, insecure, stop_head))


@head_.command("status", epilog=_STATUS_EXAMPLES)
def _head_status(head: _Head = None, as_json: _Json = False, insecure: _Insecure = False) -> None:
    """Say who the head is, and how many workers, clients and jobs it has."""
    from grainlike.cli._ask import asking, show_head

    _exit_with(lambda: asking(head, insecure, lambda caller: show_head(caller, as_json=as_json)))


@app.command("doctor", epilog=_DOCTOR_EXAMPLES, rich_help_panel="Run a cluster")
def _doctor(
    head: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS_OR_ACCESS_FILE", help="Whom to try. By default the head that runs here."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Look for what would keep a worker and its head apart: versions, access files, clocks, ports, and limits."""
    from grainlike.cli._doctor import doctor

    _exit_with(lambda: doctor(head, as_json=as_json))


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
        int | None, typer.Option(min=1, max=100_000_000, help="How many jobs, or bytes, of the one workload given.")
    ] = None,
    limit: Annotated[float, typer.Option(min=1.0, help="Seconds after which one run of one system is given up.")] = 120,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg", dir_okay=False, callback=_drawable_if_any, help="Also draw the figures."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures of all rounds as JSON.")] = False,
    show: Annotated[bool, typer.Option("--list", help="Show what can be measured, and exit.")] = False,
) -> None:
    """How fast is it here? The same small workloads on grainlike and on what else is installed, interleaved.

    Give each system the machine for itself: other work on the same cores changes all figures.
    """
    from grainlike.cli._bench import ChoiceError, bench, show_systems

    def measured() -> int:
        if show:
            return show_systems()
        try:
            return bench(
                systems or [],
                workload or [],
                size=size,
                rounds=rounds,
                limit_s=limit,
                drawing=picture,
                as_json=as_json,
            )
        except ChoiceError as error:
            raise typer.BadParameter(str(error)) from error

    _exit_with(measured)


@cache.command("ls", epilog=_CACHE_EXAMPLES)
def _cache_ls(as_json: _Json = False) -> None:
    """List results of functions with `cache=`: how many of which version."""
    from grainlike.cli._cache import list_results

    _exit_with(lambda: list_results(as_json=as_json))


@cache.command("rm", epilog=_CACHE_EXAMPLES)
def _cache_rm(
    functions: Annotated[
        list[str] | None,
        typer.Argument(metavar="FUNCTION...", help="As listed, or the name alone.", show_default=False),
    ] = None,
    version: Annotated[str | None, typer.Option(metavar="TEXT", help="Of this version alone.")] = None,
    older: Annotated[float | None, typer.Option(min=0, metavar="DAYS", help="Kept longer ago than this alone.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Of all functions.")] = False,
) -> None:
    """Remove results. What was removed runs again."""
    from grainlike.cli._cache import remove_results

    if bool(functions) == everything:
        raise typer.BadParameter("name functions, or say --all")
    _exit_with(lambda: remove_results(functions or [], version=version, older_days=older, everything=everything))
