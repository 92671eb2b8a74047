"""PBS: `qsub`, `qstat` and `qdel` of OpenPBS, PBS Professional and Torque."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from grainlike.dialects._amounts import clock, mebibytes, seconds
from grainlike.dialects._block import BlockRequest, CommandResult, NativeCommand, is_native_name
from grainlike.dialects._dialect import Dialect
from grainlike.dialects._facts import ListedBlock, Listing, NativeState, words_of
from grainlike.dialects._flags import FlagRules, directive_word
from grainlike.dialects._script import ScriptStyle, Spread

__all__ = ["PBSDialect"]

_STATES: dict[str, NativeState] = {
    **dict.fromkeys("QHWTM", "pending"),
    **dict.fromkeys("RSBU", "running"),
    "E": "ending",
    **dict.fromkeys("CFX", "ended"),
}
_WORDS = {
    "Q": "queued",
    "H": "held",
    "W": "waits for its start time",
    "T": "moves to another server",
    "M": "moved to another server",
    "S": "suspended",
    "U": "suspended: its host is in use",
    "E": "exiting",
    "C": "completed",
    "F": "finished",
    "X": "finished",
}

_SIZES = ("select", "nodes", "ncpus", "procs", "nodect", "mpiprocs", "place")

_EXCEEDED = re.compile(r"exceeded resource \w+")
"""What OpenPBS adds to the comment of a job that it has ended for a limit."""


def _listed_names(value: str) -> list[str]:
    return [part.partition("=")[0].strip() for part in value.split(",")]


@dataclass(frozen=True, slots=True)
class PBSDialect(Dialect):
    """Text for PBS, and facts from its text.

    Attributes:
        torque: True writes nodes as Torque reads them, `nodes=2:ppn=4`; else as OpenPBS does, `select=2:ncpus=4`.

    Example::

        >>> PBSDialect().submitted(CommandResult(0, "12.pbs1\\n")).native
        '12.pbs1'
    """

    torque: bool = False

    kind = "pbs"
    title = "PBS"
    prefix = "#PBS"
    finders: ClassVar[tuple[str, ...]] = ("PBS_CONF_FILE", "PBS_DEFAULT", "PBS_SERVER", "PBS_EXEC", "PBS_HOME")
    spreads: ClassVar[dict[str, Spread]] = {
        # PBS signals the sessions of a job: pbsdsh would end at SIGTERM, the script after it, and no job had its grace.
        "pbsdsh": Spread("setsid pbsdsh --", rank="${PBS_NODENUM:-0}", carries=False),
        "ssh": Spread('ssh -n "$host"', hosts="awk '!seen[$1]++ {print $1}' \"$PBS_NODEFILE\"", carries=False),
        "mpirun": Spread("mpirun -np {nodes} --map-by ppr:1:node", rank="${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}"),
    }
    rules: ClassVar[FlagRules] = FlagRules(
        refused={
            **{f"-l {name}": "nodes and resources" for name in _SIZES},
            **dict.fromkeys(("-l walltime", "-l min_walltime", "-l max_walltime"), "walltime"),
            **dict.fromkeys(("-J", "-t"), "max"),
            **dict.fromkeys(("-o", "-e", "-j", "-k"), "nothing (see `grainlike blocks log`)"),
            "-N": "nothing (a block is found by its name)",
            "-r": "nothing (a block never comes back)",
            "-S": "script",
            **dict.fromkeys(("-h", "-I", "-X", "-z", "-W block", "-C", "-f", "--version"), ""),
        },
        replaced={
            **dict.fromkeys(("-l mem", "-l pmem", "-l vmem", "-l pvmem"), "memory"),
            **dict.fromkeys(("-l ngpus", "-l gpus", "-l naccelerators"), "gpus"),
            "-n": "exclusive",
        },
        alone="hIXzVnf",
        lists=("-l", "-W"),
        names=_listed_names,
    )

    def style(self, block: BlockRequest) -> ScriptStyle:
        """Return the parts of the script; PBS would bring the log only at the end, so the script writes its own."""
        log = shlex.quote(block.log)
        opening = (f"exec >>{log} 2>&1", 'cd -- "${PBS_O_WORKDIR:-.}" || :')
        style = Dialect.style(self, block)
        if style.spread is not None and self.torque:  # which starts one on each core, unless it is told otherwise
            each_host = style.spread.command.replace("pbsdsh --", "pbsdsh -u")
            style = replace(style, spread=replace(style.spread, command=each_host))
        return replace(style, opening=opening)

    def directives(self, block: BlockRequest) -> list[str]:
        """Return the `#PBS` lines; what PBS itself says at the end is beside the log."""
        said = [("-N", block.name), ("-j", "oe"), ("-o", f"{block.log}.pbs"), ("-r", "n"), ("-S", "/bin/bash")]
        said += [("-l", part) for part in (self._torque(block) if self.torque else self._select(block))]
        if self.torque and block.whole and self.says(block, "exclusive"):
            said.append(("-n", ""))
        if block.walltime_s is not None:
            said.append(("-l", f"walltime={clock(block.walltime_s)}"))
        said += [("-q", block.queue)] if block.queue else []
        said += [("-A", block.account)] if block.account else []
        return [" ".join([self.prefix, *map(directive_word, filter(None, words))]) for words in said]

    def _select(self, block: BlockRequest) -> list[str]:
        chunk = f"select={block.nodes}"
        if not block.whole:
            chunk += f":ncpus={block.cores or 1}"
        if block.memory and self.says(block, "memory"):
            chunk += f":mem={mebibytes(block.memory)}mb"
        if block.gpus and self.says(block, "gpus"):
            chunk += f":ngpus={block.gpus}"
        place = [f"{chunk}:mpiprocs=1"]
        if block.nodes > 1 or block.whole:
            place.append("place=scatter" + (":exclhost" if block.whole else ""))
        return place

    def _torque(self, block: BlockRequest) -> list[str]:
        nodes = f"nodes={block.nodes}"
        if not block.whole:
            nodes += f":ppn={block.cores or 1}"
        if block.gpus and self.says(block, "gpus"):
            nodes += f":gpus={block.gpus}"
        if block.memory and self.says(block, "memory"):
            return [nodes, f"mem={mebibytes(block.memory) * block.nodes}mb"]
        return [nodes]

    def submit(self, block: BlockRequest) -> NativeCommand:
        """Return `qsub`, with the script on its standard input."""
        return NativeCommand(("qsub",), self.script(block))

    def native_id(self, stdout: str) -> str:
        """Return the last line that is an id: a number, and perhaps its server."""
        found = re.findall(r"^([0-9]{1,18}(?:\.[A-Za-z0-9_.\-]+)?)\s*$", stdout, re.MULTILINE | re.ASCII)
        return found[-1] if found else ""

    def check(self, block: BlockRequest) -> NativeCommand:
        """Return `qsub -h`: it is taken, held, and to be ended at once."""
        return NativeCommand(("qsub", "-h"), self.script(block))

    def list(self, user: str, host: str = "") -> tuple[NativeCommand, ...]:  # noqa: ARG002 - PBS cannot do both
        """Return `qstat -f` in JSON, and as text for systems that know none."""
        return (NativeCommand(("qstat", "-f", "-F", "json", "-x")), NativeCommand(("qstat", "-f")))

    def listed(self, said: CommandResult) -> Listing:
        """Return the blocks in a listing of `qstat -f`, in JSON or as text."""
        if said.code != 0:
            return Listing(failed=words_of(said) or "no answer in time")
        if said.stdout.lstrip().startswith("{"):
            try:
                jobs = _jobs_of_json(said.stdout)
            except (ValueError, RecursionError):
                return Listing(failed="qstat printed JSON that is none")
        else:
            jobs = dict(_jobs_of_text(said.stdout))
        return Listing(tuple(_rows(jobs)))

    def end(self, natives: Sequence[str]) -> NativeCommand:
        """Return `qdel`."""
        return NativeCommand(("qdel", *natives))


def _jobs_of_json(text: str) -> dict[str, Mapping[str, Any]]:
    jobs = json.loads(text, strict=False).get("Jobs", {})
    if not isinstance(jobs, dict):
        raise ValueError("no jobs")
    known = cast("dict[str, object]", jobs)
    return {name: cast("Mapping[str, Any]", job) for name, job in known.items() if isinstance(job, dict)}


def _jobs_of_text(text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for job in re.split(r"^Job Id:\s*", re.sub(r"\r?\n\t", "", text), flags=re.MULTILINE)[1:]:
        native, _, rest = job.partition("\n")
        found: dict[str, Any] = dict(re.findall(r"^ {2,8}([\w.]+) = (.*)$", rest, re.MULTILINE))
        for whole in ("Resource_List", "resources_used", "estimated"):
            inner = {name[len(whole) + 1 :]: value for name, value in found.items() if name.startswith(f"{whole}.")}
            found[whole] = inner
        yield native.strip(), found


def _rows(jobs: Mapping[str, Mapping[str, Any]]) -> Iterator[ListedBlock]:
    for native, job in jobs.items():
        name, letter = str(job.get("Job_Name", "")), str(job.get("job_state", ""))
        if not is_native_name(name) or "[" in native:
            continue
        state = _STATES.get(letter, "unknown")
        comment = str(job.get("comment", "")).strip()
        code = job.get("Exit_status", job.get("exit_status"))
        word = _WORDS.get(letter, "" if letter == "R" else f"state {letter}")
        reason = comment or word
        if state == "ended" and code is not None:
            exceeded = _EXCEEDED.search(comment)
            reason = f"{exceeded[0]} (exit code {code})" if exceeded else f"exit code {code}"
        estimated = _inner(job, "estimated").get("start_time")
        start = estimated if state == "pending" else job.get("stime", job.get("start_time"))
        yield ListedBlock(
            native=native,
            name=name,
            state=state,
            reason="" if letter == "R" else reason,
            left_s=_left(job) if state == "running" else None,
            nodes=_nodes(str(job.get("exec_host", ""))),
            start="" if start is None else str(start),
        )


def _inner(job: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = job.get(name)
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def _left(job: Mapping[str, Any]) -> float | None:
    remaining = seconds(str(job.get("Walltime.Remaining", job.get("Walltime", ""))))
    if remaining is not None:
        return remaining
    limit = seconds(str(_inner(job, "Resource_List").get("walltime", "")))
    used = seconds(str(_inner(job, "resources_used").get("walltime", "0")))
    return None if limit is None else max(0.0, limit - (used or 0.0))


def _nodes(text: str) -> tuple[str, ...]:
    hosts = [part.split("/")[0].strip() for part in text.split("+")]
    return tuple(dict.fromkeys(host for host in hosts if host))
