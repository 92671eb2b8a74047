"""Commands about workers: `worker start`, which loads the worker's own program by name, `drain` and `kill`."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer

from grainlike.cli._exits import NO_HEAD, epilog
from grainlike.cli._root import Head, Insecure, Json, KeepScratch, LogLevel, exit_with, worker_app

__all__: list[str] = []

_WORKER_EXAMPLES = epilog(
    """
grainlike worker start
grainlike worker start --head tcp://127.0.0.1:4711 --name n1
grainlike worker start --resources "cores=16 memory=64Gi gpus=2"
grainlike worker start --resources "cores=[6,7] licence=1"
""",
    ok="the head closed, or the worker was told to stop",
    refused=NO_HEAD,
)

_DRAIN_EXAMPLES = epilog(
    """
grainlike worker drain n17
grainlike worker drain "gpu-*" n3 --json
""",
    ok="all that are called so were told",
    failed="none is called so",
    refused=NO_HEAD,
)

_KILL_EXAMPLES = epilog(
    """
grainlike worker kill n17
grainlike worker kill "*"
""",
    ok="all that are called so were told",
    failed="none is called so",
    refused=NO_HEAD,
)

_NO_DETACH = (
    "a worker runs in the foreground; in the background, by "
    "`grainlike up local`, a unit of systemd, or `nohup grainlike worker start ... > worker.log 2>&1 &`"
)

Patterns = Annotated[
    list[str],
    typer.Argument(
        metavar="PATTERN...",
        help="Names as `grainlike ls` shows them, with * ? and [] as in a shell; a whole name comes first.",
    ),
]


@worker_app.command("start", epilog=_WORKER_EXAMPLES)
def _worker_start(
    head: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS_OR_ACCESS_FILE", help="Whom to serve. By default the head that runs here."),
    ] = None,
    resources: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What to offer. By default what its batch job, or this process, may use."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="What the worker is called. By default the host's name.")] = None,
    context: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FACTORY", help="A context manager around each process that runs jobs."),
    ] = None,
    echo_output: Annotated[bool, typer.Option("--echo-output", help="Also show here what jobs print.")] = False,
    keep_scratch: Annotated[
        KeepScratch | None,
        typer.Option(help="Leave the scratch directories of failed jobs, or of all, on the disk."),
    ] = None,
    log_level: Annotated[LogLevel, typer.Option(help="How much to tell on standard error.")] = LogLevel.INFO,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Serve a head that has no TLS, on this machine's loopback alone.")
    ] = False,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait for a head that does not listen yet, or has no access file yet."),
    ] = False,
    patience: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="How long a head that keeps a journal may be away."),
    ] = 300.0,
    idle: Annotated[
        str | None, typer.Option(metavar="TIME", help="End after so long without a job: 0:10:00, or seconds.")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Shared memory for large values, as 8Gi. By default 30 % of its memory."),
    ] = None,
    scratch: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="A disk for large values that do not fit there. By default that of $TMPDIR."),
    ] = None,
    scratch_limit: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="How much of it they may take. By default 80 % of what is free there."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT|off",
            help="Where other workers get large values from this one. By default any port of the address by which it "
            "reaches its head; none without TLS. Off, or where nobody reaches it: they pass the head.",
        ),
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", hidden=True)] = False,
) -> None:
    """Run a worker in the foreground until its head closes, or SIGTERM or Ctrl-C.

    Cores that this machine does not have are logical: they are given out and shown, but never pinned.
    """
    if detach:
        raise typer.BadParameter(_NO_DETACH, param_hint="--detach")
    worker: Any = import_module("grainlike_worker.__main__")
    exit_with(
        lambda: worker.serve(
            head=head,
            resources=resources,
            name=name,
            log_level=log_level.value,
            context=context,
            echo_output=echo_output,
            keep_scratch=None if keep_scratch is None else keep_scratch.value,
            insecure=insecure,
            wait=wait,
            patience=patience,
            idle=idle,
            store=store,
            scratch=scratch,
            scratch_limit=scratch_limit,
            data=data,
        )
    )


@worker_app.command("drain", epilog=_DRAIN_EXAMPLES)
def _worker_drain(patterns: Patterns, head: Head = None, as_json: Json = False, insecure: Insecure = False) -> None:
    """Let workers end when their jobs have: they get no more, and exit with code 0.

    The worker inside a program is not meant: it ends with its program.
    """
    from grainlike.cli._ask import asking, end_workers

    exit_with(lambda: asking(head, insecure, lambda caller: end_workers(caller, patterns, kill=False, as_json=as_json)))


@worker_app.command("kill", epilog=_KILL_EXAMPLES)
def _worker_kill(patterns: Patterns, head: Head = None, as_json: Json = False, insecure: Insecure = False) -> None:
    """End workers now: their jobs are cancelled there, and run elsewhere. Nothing counts as failed or lost.

    Jobs get the time to clean up that a cancellation gives them. The worker inside a program is not meant.
    """
    from grainlike.cli._ask import asking, end_workers

    exit_with(lambda: asking(head, insecure, lambda caller: end_workers(caller, patterns, kill=True, as_json=as_json)))
