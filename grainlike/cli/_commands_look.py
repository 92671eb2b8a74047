"""Commands that look at what runs, and at what is kept."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grainlike.cli._exits import NO_HEAD, USAGE, epilog
from grainlike.cli._root import (
    Head,
    Insecure,
    JobNumber,
    Json,
    Watch,
    app,
    cache_app,
    exit_with,
    journal_app,
    sessions_app,
)

if TYPE_CHECKING:
    from grainlike.client import Asker
    from grainlike.wire import AskHistory

JournalDirectory = Annotated[
    Path, typer.Argument(exists=True, file_okay=False, help="The journal's.", show_default="the present one")
]

_LS_EXAMPLES = epilog(
    """
grainlike ls
grainlike ls --head tcp://login1:7777 --json
grainlike ls --watch
""",
    failed="the head cannot answer",
    refused=NO_HEAD,
)

_JOBS_EXAMPLES = epilog(
    """
grainlike jobs
grainlike jobs --most 1000 --json
grainlike jobs --failed --since 2h
grainlike jobs --failed --by-reason
grainlike jobs --failed --worker 'n1*' --error 'disk full'
grainlike jobs --all --name 'fit*'
grainlike jobs --watch 5
""",
    failed="the head cannot answer",
    refused=NO_HEAD,
)

_TOP_EXAMPLES = epilog(
    """
grainlike top
grainlike top --head tcp://login1:7777 --every 5
""",
    usage="wrong usage, no terminal, or without the extra grainlike\\[top]",
    refused=NO_HEAD,
)

_EXPLAIN_EXAMPLES = epilog(
    """
grainlike explain 17
grainlike explain 17 --json
""",
    failed="there is no such job",
    refused=NO_HEAD,
)

_CANCEL_EXAMPLES = epilog(
    """
grainlike cancel 17
""",
    failed="there is no such job",
    refused=NO_HEAD,
)

_LOGS_EXAMPLES = epilog(
    """
grainlike logs 17
grainlike logs -f 17
grainlike logs --json 17 | jq -r .line
""",
    failed="there is no such job",
    refused=NO_HEAD,
)

_SESSIONS_EXAMPLES = epilog(
    """
grainlike sessions
grainlike sessions --json
grainlike sessions end sweep
""",
    failed="there is no such session",
    refused=NO_HEAD,
)

_REPORT_EXAMPLES = epilog(
    """
grainlike report
grainlike report --name 'fit*' --since 2h
grainlike report --json | jq .functions
""",
    refused=NO_HEAD,
)

_TRACE_EXAMPLES = epilog(
    """
grainlike head start --detach --record
grainlike trace -o trace.json
grainlike trace -o run.svg
""",
    failed="the head records nothing, and no job has ended; or there is nothing to draw",
    refused=NO_HEAD,
)

_DASHBOARD_EXAMPLES = epilog(
    """
grainlike dashboard
grainlike dashboard --head ~/cluster/client.json --listen 127.0.0.1:8787 --no-open

[dim]# seen from a laptop, while the command above runs on login1[/dim]
ssh -L 8787:127.0.0.1:8787 login1
""",
    usage="wrong usage, or pip install 'grainlike[dashboard]' is missing",
    refused="no head there, or it cannot listen there",
)

_CACHE_EXAMPLES = epilog(
    """
grainlike cache ls
grainlike cache rm fit --version v1
grainlike cache rm --all --older 30
""",
    failed="there was nothing to remove",
    refused="the directory cannot be read, or others can write to it",
)

_JOURNAL_CHECK_EXAMPLES = epilog(
    """
grainlike journal check ~/journal
grainlike journal check --json ~/journal | jq .damage
""",
    ok="it is sound; the end may be torn, as a crash leaves it",
    failed="it is damaged: no head starts with it",
    refused="it cannot be read, or others can read or write it",
)

_JOURNAL_EXPORT_EXAMPLES = epilog(
    """
grainlike journal export ~/journal
grainlike journal export --json ~/journal | jq .total
""",
    refused="it is damaged, or a head writes it; or as for `check`",
)


@app.command("ls", epilog=_LS_EXAMPLES, rich_help_panel="Look at a cluster")
def _ls(head: Head = None, watch: Watch = None, as_json: Json = False, insecure: Insecure = False) -> None:
    """List the workers of a head."""
    from grainlike.cli._ask import list_workers
    from grainlike.cli.screens._watch import list_or_watch

    async def listing(caller: Asker, room: int | None) -> int:
        return await list_workers(caller, as_json=as_json, most=room)

    exit_with(lambda: list_or_watch(head, insecure, listing, watch, as_json=as_json))


@app.command("jobs", epilog=_JOBS_EXAMPLES, rich_help_panel="Look at a cluster")
def _jobs(
    head: Head = None,
    ended: Annotated[bool, typer.Option("--ended", help="Those that have ended instead, the latest first.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Those that failed or timed out instead.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Those that have ended, too.")] = False,
    name: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Of ended ones those with such names: `fit*`.")
    ] = None,
    error: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Of ended ones those with that in the column error; logs N has all lines."),
    ] = None,
    worker: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Of ended ones those on such workers: `n1*`.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="T", help="Ended since then: `90s`, `30m`, `2h`, `7d`, `2026-07-01T12:00`.")
    ] = None,
    by_reason: Annotated[
        bool, typer.Option("--by-reason", help="With --failed: count them by function, error and worker.")
    ] = False,
    most: Annotated[
        int, typer.Option("--most", "-n", min=1, max=100_000, help="How many to show of each: the oldest, the latest.")
    ] = 100,
    watch: Watch = None,
    as_json: Json = False,
    insecure: Insecure = False,
) -> None:
    """List the jobs of a head that have not ended, or what became of those that have. It keeps the last 100 000."""
    from grainlike.cli._ask import list_jobs
    from grainlike.cli.screens._watch import RedrawOn, list_or_watch

    selects = any(word is not None for word in (name, since, error, worker))
    _check_choice(ended=ended, failed=failed, everything=everything, by_reason=by_reason, selects=selects)
    if not (ended or failed or everything):

        async def live(caller: Asker, room: int | None) -> int:
            return await list_jobs(caller, most=min(most, room or most), as_json=as_json)

        exit_with(lambda: list_or_watch(head, insecure, live, watch, as_json=as_json, changes=RedrawOn.JOBS))
    from msgspec.structs import replace

    from grainlike.cli._past import list_ended, list_reasons, selection
    from grainlike.wire import KEPT_JOBS

    def asked(room: int) -> AskHistory:  # each time again: `--since 2h` moves on
        return selection(name, since, most=min(most, room), failed=failed, error=error, worker=worker)

    try:
        asked(most)
    except ValueError as wrong:
        raise typer.BadParameter(str(wrong)) from None

    async def listing(caller: Asker, room: int | None) -> int:
        if by_reason:
            every = replace(asked(most), most=KEPT_JOBS)
            return await list_reasons(caller, every, most=min(most, room or most), as_json=as_json)
        each = max(1, room // 2) if room and everything else room
        return await list_ended(caller, asked(each or most), unended=everything, as_json=as_json)

    changes = RedrawOn.ENDS if ended or failed else RedrawOn.JOBS
    changes = changes if since is None else RedrawOn.ALWAYS
    exit_with(lambda: list_or_watch(head, insecure, listing, watch, as_json=as_json, changes=changes))


def _check_choice(*, ended: bool, failed: bool, everything: bool, by_reason: bool, selects: bool) -> None:
    """Refuse options of `jobs` that do not go together. `selects`: only some of the jobs that have ended are meant."""
    if ended + failed + everything > 1:
        raise typer.BadParameter("choose one of --ended, --failed and --all")
    if by_reason and not failed:
        raise typer.BadParameter("--by-reason is of failed jobs: say --failed, too")
    if selects and not (ended or failed or everything):
        words = "--name, --error, --worker and --since are of ended jobs"
        raise typer.BadParameter(f"{words}: say --ended, --failed or --all, too")


@app.command("top", epilog=_TOP_EXAMPLES, rich_help_panel="Look at a cluster")
def _top(
    every: Annotated[
        float, typer.Option(min=0.1, max=3600, metavar="SECONDS", help="Shortest time between two updates.")
    ] = 1.0,
    head: Head = None,
    insecure: Insecure = False,
) -> None:
    """Show a head on the whole terminal: which core runs what, what waits and why, functions, failures, and any job."""
    exit_with(lambda: _shown_on_the_terminal(head, insecure, every))


def _shown_on_the_terminal(head: str | None, insecure: bool, every_s: float) -> int:
    if find_spec("textual") is None:
        print("grainlike: top needs textual: pip install 'grainlike[top]'", file=sys.stderr)  # noqa: T201
        return USAGE
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        words = "top needs a terminal; `grainlike jobs --watch` writes to anything"
        print(f"grainlike: {words}", file=sys.stderr)  # noqa: T201 - a command line speaks
        return USAGE
    from grainlike.cli.screens._top import show_top  # textual takes longer than all else that commands load

    return show_top(head, insecure, every_s)


@app.command("explain", epilog=_EXPLAIN_EXAMPLES, rich_help_panel="Look at a cluster")
def _explain(job: JobNumber, head: Head = None, as_json: Json = False, insecure: Insecure = False) -> None:
    """Show where a job stands and what it waits for, or what became of it."""
    from grainlike.cli._ask import asking, explain_job

    exit_with(lambda: asking(head, insecure, lambda caller: explain_job(caller, job, as_json=as_json)))


@app.command("cancel", epilog=_CANCEL_EXAMPLES, rich_help_panel="Look at a cluster")
def _cancel(job: JobNumber, head: Head = None, insecure: Insecure = False) -> None:
    """Cancel a job: awaiting it raises an error then."""
    from grainlike.cli._ask import asking, cancel_job

    exit_with(lambda: asking(head, insecure, lambda caller: cancel_job(caller, job)))


@app.command("logs", epilog=_LOGS_EXAMPLES, rich_help_panel="Look at a cluster")
def _logs(
    job: JobNumber,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    head: Head = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print each line as JSON.")] = False,
    insecure: Insecure = False,
) -> None:
    """Show what a job has printed, attempt by attempt where there were several. Workers keep that of their last 20 000
    attempts, in 256 MiB at most.
    """
    from grainlike.cli._ask import asking
    from grainlike.cli.screens._job_log import show_logs

    exit_with(lambda: asking(head, insecure, lambda caller: show_logs(caller, job, follow=follow, as_json=as_json)))


@sessions_app.callback(epilog=_SESSIONS_EXAMPLES)
def _sessions(context: typer.Context, head: Head = None, as_json: Json = False, insecure: Insecure = False) -> None:
    """List the named sessions of a head: their jobs, what is kept of them, and the program that has each."""
    from grainlike.cli._ask import asking, list_sessions

    if context.invoked_subcommand is None:
        exit_with(lambda: asking(head, insecure, lambda caller: list_sessions(caller, as_json=as_json)))


@sessions_app.command("end")
def _sessions_end(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As listed.", show_default=False)],
    head: Head = None,
    insecure: Insecure = False,
) -> None:
    """Cancel the jobs of a session, and forget what is kept of it. A program that has it keeps it, empty."""
    from grainlike.cli._ask import asking, end_session

    exit_with(lambda: asking(head, insecure, lambda caller: end_session(caller, name)))


@app.command("report", epilog=_REPORT_EXAMPLES, rich_help_panel="Look at a cluster")
def _report(
    head: Head = None,
    name: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Functions with such names alone: `fit*`.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="T", help="Of functions, jobs that ended since then: as of `jobs`.")
    ] = None,
    as_json: Json = False,
    insecure: Insecure = False,
) -> None:
    """Count how the jobs of a head have ended, and show by function what they used of what they asked for, with what to
    ask for next time. Counts are since it was first started, functions those of the last 100 000 jobs. Cores
    busy and ran are the median, the 95th percentile and the most of the jobs, peak memory the latter two.
    """
    from grainlike.cli._ask import asking
    from grainlike.cli._past import selection, show_report
    from grainlike.wire import KEPT_JOBS

    try:
        asked = selection(name, since, most=KEPT_JOBS, failed=False)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    exit_with(lambda: asking(head, insecure, lambda caller: show_report(caller, asked, as_json=as_json)))


@app.command("trace", epilog=_TRACE_EXAMPLES, rich_help_panel="Look at a cluster")
def _trace(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", dir_okay=False, help="Where to write it.")],
    head: Head = None,
    insecure: Insecure = False,
) -> None:
    """Draw which job ran when on which core: a timeline picture (Gantt chart) into FILE.svg; into any other file a
    trace with GPUs, memory and dependencies, for ui.perfetto.dev and chrome://tracing.

    A head that was started with --record knows all attempts; of any other, jobs that have ended are drawn.
    """
    from grainlike.cli._ask import asking
    from grainlike.cli._past import write_trace

    if not output.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {output.parent}", param_hint="--output")
    exit_with(lambda: asking(head, insecure, lambda caller: write_trace(caller, output)))


@app.command("dashboard", epilog=_DASHBOARD_EXAMPLES, rich_help_panel="Look at a cluster")
def _dashboard(
    head: Head = None,
    listen: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Where browsers find it. By default on 127.0.0.1, at any free port."),
    ] = "127.0.0.1:0",
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print the link, and open no browser.")] = False,
    insecure: Insecure = False,
) -> None:
    """Show a head in a browser, live: cluster, queue, jobs, timeline, workers, pools and limits.

    It prints a link that opens one browser; Enter prints another one. It only shows, and changes nothing.
    """
    from grainlike.cli.screens._dashboard import serve_dashboard
    from grainlike.dashboard import read_address

    try:
        address = read_address(listen)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--listen") from None
    exit_with(lambda: serve_dashboard(head, address, insecure=insecure, opens=not no_open))


@cache_app.command("ls", epilog=_CACHE_EXAMPLES)
def _cache_ls(as_json: Json = False) -> None:
    """List results of functions with `cache=`: how many of which version."""
    from grainlike.cli._cache import list_results

    exit_with(lambda: list_results(as_json=as_json))


@cache_app.command("rm", epilog=_CACHE_EXAMPLES)
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
    exit_with(lambda: remove_results(functions or [], version=version, older_days=older, everything=everything))


@journal_app.command("check", epilog=_JOURNAL_CHECK_EXAMPLES)
def _journal_check(
    directory: JournalDirectory = Path(),
    as_json: Json = False,
) -> None:
    """Read all of a journal, and show what is in it and whether that is whole. Nothing is changed."""
    from grainlike.cli._journal import check_journal

    exit_with(lambda: check_journal(directory, as_json=as_json))


@journal_app.command("export", epilog=_JOURNAL_EXPORT_EXAMPLES)
def _journal_export(
    directory: JournalDirectory = Path(),
    as_json: Json = False,
) -> None:
    """List the jobs that a head which does not run had left. For one that runs, use `grainlike jobs`."""
    from grainlike.cli._journal import export_journal

    exit_with(lambda: export_journal(directory, as_json=as_json))
