"""Commands about pools of workers: `up`, `scale`, `down`, `pools`, `blocks`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from grainlike.cli._exits import NO_HEAD, epilog
from grainlike.cli._root import Head, Insecure, Json, Watch, app, blocks_app, exit_with, pools_app

if TYPE_CHECKING:
    from grainlike.client import Asker, BlockingClient
    from grainlike.launch import WorkerPool

__all__: list[str] = []

_PANEL = "Get workers"

_UP_EXAMPLES = epilog(
    """
[dim]# what would be submitted, and what the batch system says to it; nothing is submitted[/dim]
grainlike up slurm --resources "cores=16 memory=60Gi" --walltime 4:00:00 --dry

[dim]# four workers now; or as many as the queue wants, eight at most[/dim]
grainlike up slurm -n 4 --resources cores=16 --walltime 4:00:00 -- --qos=normal
grainlike up slurm --max 8 --resources cores=16 --walltime 4:00:00

[dim]# the pool \\[pool.cpu] of the settings[/dim]
grainlike up cpu --max 20
""",
    ok="the pool is there, and its first block was taken",
    failed="the batch system refused it: its words are printed, and the pool is paused; or it does not answer, and "
    "is asked again",
    usage="wrong usage, or a pool that cannot be",
    refused=NO_HEAD,
)
_SCALE_EXAMPLES = epilog(
    "grainlike scale cpu 0..16\ngrainlike scale 4", failed="there is no such pool", refused=NO_HEAD
)
_DOWN_EXAMPLES = epilog(
    "grainlike down\ngrainlike down cpu --now",
    ok="the batch system has nothing left of them",
    failed="it has, after 60 s: what is left is printed; or there is no such pool",
    refused=NO_HEAD,
)
_POOLS_EXAMPLES = epilog(
    "grainlike pools\ngrainlike pools --watch\ngrainlike pools resume cpu",
    failed="there is no such pool",
    refused=NO_HEAD,
)
_BLOCKS_EXAMPLES = epilog(
    "grainlike blocks --all\ngrainlike blocks --watch 10\ngrainlike blocks log cpu-7 -f",
    failed="there is no such block",
    refused=NO_HEAD,
)

Label = Annotated[str, typer.Argument(metavar="LABEL", help="As `grainlike blocks` shows it.", show_default=False)]
PoolName = Annotated[str, typer.Argument(metavar="POOL", help="As `grainlike pools` shows it.", show_default=False)]


@app.command("up", epilog=_UP_EXAMPLES, rich_help_panel=_PANEL)
def _up(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A pool of the settings, or slurm, pbs, lsf, sge, ssh, local, k8s.", show_default=False
        ),
    ],
    native: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- NATIVE FLAGS...", help="The batch system's own flags.", show_default=False),
    ] = None,
    count: Annotated[int | None, typer.Option("-n", min=0, help="So many workers, no more and no less.")] = None,
    most: Annotated[int | None, typer.Option("--max", min=0, help="Workers at most, as jobs want them.")] = None,
    least: Annotated[int | None, typer.Option("--min", min=0, help="Workers at least.")] = None,
    resources: Annotated[str | None, typer.Option(metavar="TEXT", help="What each worker offers.")] = None,
    walltime: Annotated[str | None, typer.Option(metavar="H:MM:SS", help="How long a block lasts.")] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="Workers in one block.")] = None,
    queue: Annotated[str | None, typer.Option(help="Partition, or queue.")] = None,
    account: Annotated[str | None, typer.Option(help="Account, or project.")] = None,
    idle: Annotated[str | None, typer.Option(metavar="H:MM:SS", help="A block without jobs for so long ends.")] = None,
    budget: Annotated[float | None, typer.Option(metavar="HOURS", help="Core-hours at most.")] = None,
    hosts: Annotated[str | None, typer.Option(metavar="A,B,..", help="Machines, for ssh: node[1-4],gpu1.")] = None,
    via: Annotated[str | None, typer.Option(metavar="COMMAND", help="Before native commands: 'ssh login1'.")] = None,
    dry: Annotated[bool, typer.Option("--dry", help="Print what would be submitted, and what is said to it.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the least number of workers is there.")] = False,
    head: Head = None,
    as_json: Json = False,
    insecure: Insecure = False,
) -> None:
    """Get workers from a batch system, by SSH or on this machine: as many as you say, or as jobs want.

    Flags go over the settings. The same name again changes the pool: of one that the settings do not have, what is not
    said again stays as it is.
    """
    from grainlike.cli.pools._choice import pool_for, show_dry

    if count is not None and (most is not None or least is not None):
        raise typer.BadParameter("-n says both --min and --max: leave those out")
    said: dict[str, Any] = {
        "min": count if count is not None else least,
        "max": count if count is not None else most,
        "resources": resources,
        "walltime": walltime,
        "nodes": nodes,
        "queue": queue,
        "account": account,
        "idle": idle,
        "budget": budget,
        "hosts": None if hosts is None else _machines(hosts),
        "via": via,
        "native": native or None,
    }
    given = {key: value for key, value in said.items() if value is not None}

    def pool_over(is_up: dict[str, Any] | None) -> WorkerPool:
        try:
            return pool_for(name, given, is_up)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    if dry:
        exit_with(lambda: show_dry(pool_over(None), as_json=as_json))
    from grainlike.cli._ask import asking
    from grainlike.cli.pools._pools import bring_up, keys_at_head

    is_up = keys_at_head(head, insecure, name)
    pool, changed = pool_over(is_up), is_up is not None

    async def ask(caller: BlockingClient) -> int:
        return await bring_up(caller, name, pool, changed=changed, wait=wait, as_json=as_json)

    exit_with(lambda: asking(head, insecure, ask))


def _machines(text: str) -> list[str]:
    """Return the parts between commas that are in no brackets: `node[1,3],gpu1` has two."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


@app.command("scale", epilog=_SCALE_EXAMPLES, rich_help_panel=_PANEL)
def _scale(
    what: Annotated[
        list[str], typer.Argument(metavar="[POOL] N|MIN..MAX", help="How many workers.", show_default=False)
    ],
    head: Head = None,
    insecure: Insecure = False,
) -> None:
    """Change how many workers a pool has; without a name, the only one that is up."""
    from grainlike.cli._ask import asking
    from grainlike.cli.pools._pools import numbers_of, scale_pool

    if len(what) > 2:
        raise typer.BadParameter("a pool and a number, as: grainlike scale cpu 0..16")
    try:
        least, most = numbers_of(what[-1])
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    name = what[0] if len(what) > 1 else None
    exit_with(lambda: asking(head, insecure, lambda caller: scale_pool(caller, name, least, most)))


@app.command("down", epilog=_DOWN_EXAMPLES, rich_help_panel=_PANEL)
def _down(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="POOL...", help="By default all of them.", show_default=False)
    ] = None,
    now: Annotated[bool, typer.Option("--now", help="Do not wait for jobs: they run elsewhere.")] = False,
    head: Head = None,
    insecure: Insecure = False,
) -> None:
    """Take pools down: workers end when their jobs have, and pending blocks leave the batch queue."""
    from grainlike.cli._ask import asking
    from grainlike.cli.pools._pools import take_down

    exit_with(lambda: asking(head, insecure, lambda caller: take_down(caller, names or (), now=now)))


@pools_app.callback(epilog=_POOLS_EXAMPLES)
def _pools(
    context: typer.Context, head: Head = None, watch: Watch = None, as_json: Json = False, insecure: Insecure = False
) -> None:
    """List the pools of workers of a head."""
    from grainlike.cli.pools._pools import list_pools
    from grainlike.cli.screens._watch import list_or_watch

    async def listing(caller: Asker, room: int | None) -> int:
        return await list_pools(caller, as_json=as_json, most=room)

    if context.invoked_subcommand is None:
        exit_with(lambda: list_or_watch(head, insecure, listing, watch, as_json=as_json))


@pools_app.command("pause")
def _pools_pause(name: PoolName, head: Head = None, insecure: Insecure = False) -> None:
    """Submit no more blocks of a pool, until it is resumed."""
    from grainlike.cli._ask import asking
    from grainlike.cli.pools._pools import pause_pool

    exit_with(lambda: asking(head, insecure, lambda caller: pause_pool(caller, name, on=True)))


@pools_app.command("resume")
def _pools_resume(name: PoolName, head: Head = None, insecure: Insecure = False) -> None:
    """Go on with a pool that was paused, by hand or by failures."""
    from grainlike.cli._ask import asking
    from grainlike.cli.pools._pools import pause_pool

    exit_with(lambda: asking(head, insecure, lambda caller: pause_pool(caller, name, on=False)))


@blocks_app.callback(epilog=_BLOCKS_EXAMPLES)
def _blocks(
    context: typer.Context,
    ended: Annotated[bool, typer.Option("--all", help="Those that have ended, too.")] = False,
    head: Head = None,
    watch: Watch = None,
    as_json: Json = False,
    insecure: Insecure = False,
) -> None:
    """List the blocks of workers: where each stands in its batch system, and why."""
    from grainlike.cli.pools._pools import list_blocks
    from grainlike.cli.screens._watch import list_or_watch

    async def listing(caller: Asker, room: int | None) -> int:
        return await list_blocks(caller, ended=ended, as_json=as_json, most=room)

    if context.invoked_subcommand is None:
        exit_with(lambda: list_or_watch(head, insecure, listing, watch, as_json=as_json))


@blocks_app.command("log")
def _blocks_log(
    label: Label,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until it has ended.")] = False,
    head: Head = None,
    insecure: Insecure = False,
) -> None:
    """Print the log of a block: what its script and its workers wrote."""
    from grainlike.cli._ask import asking
    from grainlike.cli.pools._pools import follow_log

    exit_with(lambda: asking(head, insecure, lambda caller: follow_log(caller, label, follow=follow)))


@blocks_app.command("script")
def _blocks_script(label: Label, head: Head = None, insecure: Insecure = False) -> None:
    """Print the script of a block, as it was submitted."""
    from grainlike.cli._ask import asking
    from grainlike.cli.pools._pools import print_script

    exit_with(lambda: asking(head, insecure, lambda caller: print_script(caller, label)))


@blocks_app.command("end")
def _blocks_end(
    label: Label,
    now: Annotated[bool, typer.Option("--now", help="Do not wait for jobs: they run elsewhere.")] = False,
    head: Head = None,
    insecure: Insecure = False,
) -> None:
    """End a block; its pool submits another one if jobs want it."""
    from grainlike.cli._ask import asking
    from grainlike.cli.pools._pools import end_block

    exit_with(lambda: asking(head, insecure, lambda caller: end_block(caller, label, now=now)))
