"""Commands that run a cluster: heads, access files, and commands as jobs; `_commands_worker` has those of workers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from grainlike.cli._exits import NO_HEAD, epilog
from grainlike.cli._root import (
    Head,
    Insecure,
    Json,
    LogLevel,
    access_app,
    app,
    config_app,
    exit_with,
    head_app,
)

_ACCESS_EXAMPLES = epilog(
    """
grainlike access generate
grainlike access generate --directory ~/shared/cluster --address tcp://login1:7777
""",
    usage="wrong usage, or files are there already",
)

_CONFIG_EXAMPLES = epilog(
    """
grainlike config show
grainlike config show --origin
GRAINLIKE_HEAD__LISTEN=tcp://0.0.0.0:7777 grainlike config show --json
""",
    usage="wrong usage, or the settings are not right",
)

_DOCTOR_EXAMPLES = epilog(
    """
grainlike doctor
grainlike doctor --head ~/cluster.json
""",
    ok="nothing is bad",
    failed="something is; it says what to do",
)

_HEAD_EXAMPLES = epilog(
    """
grainlike head start
grainlike head start --listen tcp://0.0.0.0:7777 --detach
grainlike head start --access ~/cluster/head.json
grainlike head start --run-once
""",
    ok="it was told to stop, or was done",
    refused="it cannot listen there",
)

_STOP_EXAMPLES = epilog(
    """
grainlike head stop
grainlike head stop --head tcp://login1:7777
grainlike head stop --workers
grainlike head stop --forget
""",
    ok="it has stopped",
    failed="it is part of a program, and ends with that; or it has stopped, but its disk refused what sessions keep, "
    "or a worker did not end",
    refused=NO_HEAD,
)

_STATUS_EXAMPLES = epilog(
    """
grainlike head status
grainlike head status --head ~/cluster/client.json --json
""",
    failed="the head cannot answer",
    refused=NO_HEAD,
)

_WANTED_EXAMPLES = epilog(
    """
grainlike head wanted "cores=16 memory=64Gi" --most 8
grainlike head wanted cores=4 --within 600 --json
""",
    refused=NO_HEAD,
)

_SUBMIT_EXAMPLES = epilog(
    """
[dim]# on a worker of the head that runs here[/dim]
grainlike submit -r "gpus=1 cores=4" -- python train.py --seed 1

[dim]# many at once: a line of the file is a command, or "-r TEXT -- COMMAND"[/dim]
grainlike submit -r "cores=1" --file commands.txt

[dim]# without a head: on slots of this machine, until all have run[/dim]
grainlike submit --run-once --resources "gpu0=1 gpu1=1" -r "gpu0=1" --file commands.txt
""",
    ok="all commands ended with exit code 0",
    failed="a command failed",
    refused=NO_HEAD,
)


@access_app.command("generate", epilog=_ACCESS_EXAMPLES)
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

    Each is a key to its role: any process that has the file may take that role. Copy worker.json to where workers
    run, with mode 600.
    """
    from grainlike.cli._access import generate

    def generated() -> int:
        try:
            return generate(directory, address or [], cluster, days)
        except (ValueError, OSError) as error:
            raise typer.BadParameter(str(error)) from error

    exit_with(generated)


def _directory(path: Path | None) -> Path | None:
    """Return the directory of a journal, which need not exist yet."""
    if path is not None and path.expanduser().exists() and not path.expanduser().is_dir():
        raise typer.BadParameter(f"{path} is a file; a journal is a directory, which need not exist yet")
    return path


@head_app.command("start", epilog=_HEAD_EXAMPLES)
def _head_start(
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Where to listen. By default where the head before it with this journal did, else on all interfaces, "
            "at any free port.",
        ),
    ] = None,
    access: Annotated[
        Path | None,
        typer.Option(metavar="HEAD_JSON", dir_okay=False, help="Be the head of a cluster that has files."),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Go on in the background once it listens, with a log.")
    ] = False,
    run_once: Annotated[
        bool,
        typer.Option("--run-once", help="End, with its workers, when the last program that had jobs has left."),
    ] = False,
    journal: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            callback=_directory,
            help="Write down all that is told to it here; started again with this, it goes on where it was.",
        ),
    ] = None,
    salvage: Annotated[
        bool, typer.Option("--salvage", help="Set aside what is damaged in the journal, and go on without it.")
    ] = False,
    record: Annotated[
        bool, typer.Option("--record", help="Keep where and when the last 100 000 jobs ran, for `grainlike trace`.")
    ] = False,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="AMOUNT",
            help="How much named sessions may keep of outcomes, as 20Gi. By default half of what is free on disk.",
        ),
    ] = None,
    no_launch: Annotated[
        bool, typer.Option("--no-launch", help="Refuse clients that ask for pools of workers: `grainlike up`.")
    ] = False,
    events: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Append all events there as JSON lines; - is the standard output."),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Answer Prometheus at http://HOST:PORT/metrics; without TLS."),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen without TLS, on this machine's loopback alone.")
    ] = False,
    dashboard: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Also serve pages for browsers there: see `grainlike dashboard`."),
    ] = None,
    log_level: Annotated[LogLevel, typer.Option(help="How much to tell on standard error.")] = LogLevel.INFO,
    ready: Annotated[int | None, typer.Option(hidden=True)] = None,
    log_file: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run a head: programs connect to it, workers serve it. It stops at SIGTERM, Ctrl-C or `grainlike head stop`.

    What workers and clients need to be let in is written to access files that only you can read. With `--journal`, it
    may be killed and started again: workers continue their jobs for some minutes, and programs wait. SIGTERM then
    leaves the work as it is for the next start. Ctrl-C and `grainlike head stop` do so where sessions keep something;
    else they end it.
    """
    if detach:
        from grainlike.cli.heads._detached import start_detached

        arguments = _as_arguments(
            {
                "--log-level": log_level.value,
                "--listen": listen,
                "--keep": keep,
                "--access": access,
                "--dashboard": dashboard,
                "--journal": journal,
                "--events": None if events is None else _absolute(events),
                "--metrics": metrics,
                "--insecure": insecure,
                "--run-once": run_once,
                "--salvage": salvage,
                "--record": record,
                "--no-launch": no_launch,
            }
        )

        def detached() -> int:
            _pages(dashboard)  # refused here, where it is seen
            return start_detached(arguments)

        exit_with(lambda: _or_wrong_usage(detached))
    from grainlike.cli._words import bytes_of
    from grainlike.cli.heads._start import start_head

    def started() -> int:
        return start_head(
            listen,
            access,
            insecure=insecure,
            log_level=log_level.value,
            run_once=run_once,
            journal=journal,
            salvage=salvage,
            record=record,
            keep=None if keep is None else bytes_of(keep),
            no_launch=no_launch,
            events=events,
            metrics=metrics,
            ready=ready,
            log_file=log_file,
            dashboard=_pages(dashboard),
        )

    exit_with(lambda: _or_wrong_usage(started))


def _or_wrong_usage(run: Callable[[], int]) -> int:
    """Run it; a value that it refuses is wrong usage."""
    try:
        return run()
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _pages(dashboard: str | None) -> tuple[str, int] | None:
    """Return host and port of the pages for browsers."""
    if dashboard is None:
        return None
    from grainlike.dashboard import read_address

    return read_address(dashboard)


def _as_arguments(options: dict[str, str | Path | bool | None]) -> list[str]:
    """Return options as words of a command line, without those that are not given."""
    words: list[str] = []
    for name, value in options.items():
        if value is True:
            words.append(name)
        elif value is not None and value is not False:
            words += [name, _absolute(value) if isinstance(value, Path) else value]
    return words


def _absolute(path: str | Path) -> str:
    return "-" if path == "-" else str(Path(path).expanduser().absolute())


@head_app.command("stop", epilog=_STOP_EXAMPLES)
def _head_stop(
    head: Head = None,
    forget: Annotated[
        bool,
        typer.Option("--forget", help="Cancel all jobs, and drop what sessions keep, also where there is a journal."),
    ] = False,
    workers: Annotated[
        bool,
        typer.Option(
            "--workers", help="End the workers first, also those started by hand; their jobs run again later."
        ),
    ] = False,
    insecure: Insecure = False,
) -> None:
    """End a head that was started with `grainlike head start`.

    With a journal, what sessions keep stays there, with their jobs: `grainlike head start --journal` goes on with them,
    and workers wait for that for some minutes. Else jobs that still run are cancelled. What is kept or dropped is
    printed.
    """
    from grainlike.cli._ask import asking
    from grainlike.cli._head import stop_head

    exit_with(lambda: asking(head, insecure, lambda caller: stop_head(caller, forget=forget, workers=workers)))


@head_app.command("status", epilog=_STATUS_EXAMPLES)
def _head_status(head: Head = None, as_json: Json = False, insecure: Insecure = False) -> None:
    """Show the head, how many workers, clients and jobs it has, and the last workers that it has lost."""
    from grainlike.cli._ask import asking, show_head

    exit_with(lambda: asking(head, insecure, lambda caller: show_head(caller, as_json=as_json)))


@head_app.command("wanted", epilog=_WANTED_EXAMPLES)
def _head_wanted(
    offer: Annotated[str, typer.Argument(metavar="TEXT", help="What one worker would offer, as for --resources.")],
    most: Annotated[int, typer.Option(min=0, max=100_000, help="No more than so many.")] = 1000,
    within: Annotated[float, typer.Option(min=0.1, max=1e9, help="How many seconds short jobs may wait.")] = 60.0,
    head: Head = None,
    as_json: Json = False,
    insecure: Insecure = False,
) -> None:
    """Show how many more workers of a kind would help with what waits: for those who start them, by hand or by
    script.

    Jobs that will be done in time without them want none; nor do those that wait after a failure.
    """
    from grainlike.cli._ask import asking, show_wanted
    from grainlike.resources import parse

    try:
        parse(offer)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    exit_with(
        lambda: asking(
            head, insecure, lambda caller: show_wanted(caller, offer, most=most, within_s=within, as_json=as_json)
        )
    )


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
        typer.FileText | None,
        typer.Option(
            metavar="FILE",
            help="Commands, one a line, which no shell reads; - for standard input.",
            encoding="utf-8",
            errors="surrogateescape",  # other bytes are the program's to understand, as on a command line
        ),
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
    progress: Annotated[bool, typer.Option("--progress", help="Show a bar for each program, on a terminal.")] = False,
    head: Head = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print only what became of each; their output goes to standard error."),
    ] = False,
    insecure: Insecure = False,
) -> None:
    """Run commands as jobs on exact slots, show what they print, and wait for them.

    They run in this folder, which their worker must have too. When this command ends, by Ctrl-C or with its terminal,
    those that have not ended are cancelled. It has no retries, and no session that goes on without it: for these write
    a program, as docs/how-to/campaigns.md shows.
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
                bars=progress,
            )
        except UsageError as error:
            raise typer.BadParameter(str(error)) from error

    exit_with(submitted)


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

    exit_with(lambda: doctor(head, as_json=as_json))


@config_app.command("show", epilog=_CONFIG_EXAMPLES)
def _config_show(
    origin: Annotated[bool, typer.Option("--origin", help="Show the file or variable that each is from.")] = False,
    as_json: Json = False,
) -> None:
    """Show what files and the environment set: defaults of commands, and pools of workers."""
    from grainlike.cli._config import show_settings

    exit_with(lambda: show_settings(origin=origin, as_json=as_json))
