"""Scripts of blocks: what runs on their nodes, in a shell, from the directives to the end."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from grainlike.dialects._amounts import clock, mebibytes
from grainlike.dialects._block import BlockRequest

__all__ = ["ScriptStyle", "Spread", "fill_holes", "write_script"]

_NOTICES = "trap : TERM INT USR1 USR2 XCPU  # every process is told: the worker ends in order, then this script"
_HOLE = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


@dataclass(frozen=True, slots=True)
class Spread:
    """Way in which one worker is started on each node of a block.

    Attributes:
        command: the words before what each node is to run; with `hosts`, `"$host"` is among them.
        rank: shell text of the node's number; empty with `hosts`, where it is counted.
        hosts: shell command that prints the nodes, a line each; empty: the program itself starts all.
        carries: True if variables and the working directory of this shell reach the nodes.
        here: True if the first of `hosts` is this one, where the worker is started without the command.
    """

    command: str
    rank: str = ""
    hosts: str = ""
    carries: bool = True
    here: bool = False


@dataclass(frozen=True, slots=True)
class ScriptStyle:
    """Parts of a script that differ between systems.

    Attributes:
        directives: lines for the batch system, and nothing to the shell.
        spread: how the workers of several nodes are started.
        shebang: first line.
        opening: lines before all others that do something.
        closing: lines that run at the end, however it came.
        passes: True if SIGTERM to this shell is to reach the worker by its hand: nothing else sends it.
        rank: shell text of the worker's number in the block, where no spread knows it.
    """

    directives: Sequence[str] = ()
    spread: Spread | None = None
    shebang: str = "#!/bin/bash -l"
    opening: Sequence[str] = ()
    closing: Sequence[str] = ()
    passes: bool = False
    rank: str = "0"


def write_script(block: BlockRequest, style: ScriptStyle) -> str:
    """Return the script of a block: ours, or the user's own with its holes filled.

    Raises:
        ValueError: the user's own has an unknown hole, lacks one that it needs, or cannot be spread.
    """
    if block.script is not None:
        return fill_holes(block.script, _fillings(block, style))
    scratch = _scratch_lines(block) if _here(block, style) else []
    inner = [*_env_lines(block), *_end_lines(block, style), *scratch, *block.setup_lines]
    anew = style.spread is not None and block.nodes > 1 and not style.spread.carries
    if anew:
        rank = '"${2:-' + ((style.spread.rank if style.spread else "") or "0") + '}"'
        launch = [_worker(block, rank)]
    elif style.passes:
        launch = _passed_on(_worker(block, style.rank))
    else:
        launch = _launch(block, style)
    outer = _each_node_anew(block, style.spread) if anew and style.spread is not None else []
    lines = [style.shebang, *style.directives, "", *style.opening]
    lines += outer
    lines += inner if style.passes else [_NOTICES, *inner]
    return "\n".join([*lines, *launch]) + "\n"


def fill_holes(text: str, fillings: Mapping[str, str]) -> str:
    """Return a script with its `{{name}}` holes filled.

    Raises:
        ValueError: an unknown hole, or no `{{directives}}` or `{{worker}}`.

    Example::

        >>> fill_holes("{{directives}}\\ntime {{ worker }}", {"directives": "#SBATCH -n 1", "worker": "python -V"})
        '#SBATCH -n 1\\ntime python -V'
    """
    found = _HOLE.findall(text)
    for name in found:
        if name not in fillings:
            near = get_close_matches(name, fillings, 1)
            hint = f"did you mean {{{{{near[0]}}}}}?" if near else f"known are {', '.join(sorted(fillings))}"
            raise ValueError(f"script: {{{{{name}}}}} is no hole: {hint}")
    for name in ("directives", "worker"):
        if name not in found:
            raise ValueError(f"script: without {{{{{name}}}}} it makes no worker that anybody would find")
    return _HOLE.sub(lambda hole: fillings[hole[1]], text)


def _fillings(block: BlockRequest, style: ScriptStyle) -> dict[str, str]:
    if block.nodes > 1 and style.spread is not None and (style.spread.hosts or not style.spread.carries):
        raise ValueError("script: one of your own starts several nodes by spread = 'srun' or 'mpirun' alone")
    return {
        "account": block.account,
        "cores": str(block.cores),
        "defer": "\n".join(block.defer_lines),
        "directives": "\n".join(style.directives),
        "directory": shlex.quote(block.directory),
        "env": "\n".join(_env_lines(block)),
        "gpus": str(block.gpus),
        "label": shlex.quote(block.label),
        "log": shlex.quote(block.log),
        "memory": str(mebibytes(block.memory)),
        "name": block.name,
        "nodes": str(block.nodes),
        "python": shlex.quote(block.python),
        "queue": block.queue,
        "scratch": block.scratch,
        "setup": "\n".join(block.setup_lines),
        "walltime": "" if block.walltime_s is None else clock(block.walltime_s),
        "worker": "\n".join(_passed_on(_worker(block, style.rank))) if style.passes else _launch(block, style)[0],
    }


def _env_lines(block: BlockRequest) -> list[str]:
    return [f"export {name}={shlex.quote(value)}" for name, value in block.env]


def _end_lines(block: BlockRequest, style: ScriptStyle) -> list[str]:
    own = [_REMOVE] if block.scratch and _here(block, style) else []
    # The fleet learns from this line of the log that no other block would do better.
    delivered = [f"rm -f -- {shlex.quote(file.path)}" for file in block.deliver]
    lines = ["ended=$?", *block.defer_lines, *own, *delivered, *style.closing, 'echo "exit code $ended"']
    return ["at_end() {", *(f"    {line}" for line in lines), "}", "trap at_end EXIT"]


_REMOVE = '[ -z "${own_scratch-}" ] || rm -rf -- "$own_scratch"'


def _here(block: BlockRequest, style: ScriptStyle) -> bool:
    """Return True if the worker runs in this very shell, so that scratch is made here."""
    return block.nodes == 1 or style.spread is None or not style.spread.carries


def _scratch_lines(block: BlockRequest) -> list[str]:
    if not block.scratch:
        return []
    return [
        f'mkdir -p -- "{block.scratch}"',
        f'own_scratch=$(mktemp -d -- "{block.scratch}"/{shlex.quote(block.label)}.XXXXXXXX) || exit',
        'export TMPDIR="$own_scratch"',
    ]


def _worker(block: BlockRequest, rank: str) -> str:
    """Return the command of one worker, as a shell reads it; `rank` is shell text for its number in the block."""
    words = [block.python, "-m", "grainlike_worker", "--head", block.access]
    if block.offer:
        words += ["--resources", block.offer]
    name = f"{shlex.quote(block.label)}.{rank}"
    wrap = f"{block.wrap} " if block.wrap else ""
    return f"GRAINLIKE_BLOCK={shlex.quote(block.label)} {wrap}{shlex.join(words)} --name {name}"


def _launch(block: BlockRequest, style: ScriptStyle) -> list[str]:
    spread = style.spread
    if block.nodes == 1 or spread is None:
        return [_worker(block, style.rank)]
    inner = _worker(block, f'"{spread.rank}"' if spread.rank else '"$0"')
    if block.scratch:
        inner = "; ".join(
            ["trap : TERM INT USR1 USR2 XCPU", *_scratch_lines(block), f"trap {shlex.quote(_REMOVE)} EXIT", inner]
        )
    if spread.hosts:
        return _on_hosts(spread, f'bash -c {shlex.quote(inner)} "$rank"')
    return [f"{spread.command} bash -c {shlex.quote(inner)}"]


def _each_node_anew(block: BlockRequest, spread: Spread) -> list[str]:
    """Lines that run the kept script again on each node, where nothing of this shell would arrive."""
    again = f"bash -l {shlex.quote(block.kept)} node"
    if not spread.hosts:
        lines = [f"{spread.command} {again}"]
    else:
        # `ssh` and `qrsh` give their words to a shell there: this one expands the number first.
        by_shell = spread.command.startswith(_BY_SHELL)
        own = f'{again} "$rank"' if spread.here else ""
        lines = _on_hosts(spread, f'{shlex.quote(again) if by_shell else again} "$rank"', own)
    return ['if [ "${1-}" != node ]; then', f"    {_NOTICES}", *(f"    {line}" for line in lines), "    exit", "fi"]


_BY_SHELL = ("ssh ", "qrsh ")


def _on_hosts(spread: Spread, what: str, own: str = "") -> list[str]:
    there = f"{spread.command} {what} &"
    return [
        "rank=0 pids= status=0",
        f"for host in $({spread.hosts}); do",
        f'    if [ "$rank" -eq 0 ]; then {own} & else {there} fi' if own else f"    {there}",
        '    pids="$pids $!" rank=$((rank + 1))',
        "done",
        "for pid in $pids; do  # a signal ends a wait, but no worker",
        '    wait "$pid"; code=$?',
        '    while kill -0 "$pid" 2>/dev/null; do wait "$pid"; code=$?; done',
        '    [ "$code" -eq 0 ] || status=$code',
        "done",
        '(exit "$status")',
    ]


def _passed_on(worker: str) -> list[str]:
    return [
        f"{worker} &",
        "worker=$!",
        """trap 'kill -TERM "$worker" 2>/dev/null' TERM INT HUP""",
        'wait "$worker"; code=$?',
        'while kill -0 "$worker" 2>/dev/null; do wait "$worker"; code=$?; done',
        'exit "$code"',
    ]
