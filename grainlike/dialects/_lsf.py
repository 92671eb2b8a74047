"""LSF: `bsub`, `bjobs`, `bkill`, `blaunch`."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

from grainlike.dialects._amounts import mebibytes
from grainlike.dialects._block import BlockRequest, CommandResult, NativeCommand, is_native_name
from grainlike.dialects._dialect import Dialect
from grainlike.dialects._facts import ListedBlock, Listing, NativeState, words_of
from grainlike.dialects._flags import FlagRules, directive_word
from grainlike.dialects._script import ScriptStyle, Spread

__all__ = ["LSFDialect"]

_STATES: dict[str, NativeState] = {
    **dict.fromkeys(("PEND", "PSUSP", "WAIT", "PROV"), "pending"),
    **dict.fromkeys(("RUN", "USUSP", "SSUSP", "UNKWN"), "running"),
    **dict.fromkeys(("DONE", "EXIT", "ZOMBI"), "ended"),
}
_FIELDS = "jobid job_name stat time_left exec_host start_time estimated_start_time exit_code exit_reason pend_reason"
_NOTHING = frozenset({"", "-"})
_NO_JOBS = re.compile(r"^No (unfinished |matching )?jobs? (is )?found", re.MULTILINE | re.IGNORECASE)


def _sections(value: str) -> list[str]:
    """Return names of a requirement: `span`, and the names inside of `rusage`."""
    found = re.findall(r"\b(span|affinity|cu)\s*\[", value)
    return [*found, *(name for inner in re.findall(r"rusage\s*\[([^\]]*)", value) for name in _used(inner))]


def _used(inner: str) -> list[str]:
    return re.findall(r"([A-Za-z_]\w*)\s*=", inner)


class LSFDialect(Dialect):
    """Text for LSF, and facts from its text.

    Example::

        >>> LSFDialect().submitted(CommandResult(0, "Job <12> is submitted to queue <normal>.")).native
        '12'
    """

    kind = "lsf"
    title = "LSF"
    prefix = "#BSUB"
    finders: ClassVar[tuple[str, ...]] = ("LSF_*",)
    spreads: ClassVar[dict[str, Spread]] = {
        # Without a shell of its own: that would take the words apart at their blanks, as rsh does.
        "blaunch": Spread('blaunch "$host" -no-shell', hosts="awk '!seen[$1]++ {print $1}' \"$LSB_DJOB_HOSTFILE\""),
        "mpirun": Spread("mpirun -np {nodes} --map-by ppr:1:node", rank="${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}"),
        "ssh": Spread('ssh -n "$host"', hosts="awk '!seen[$1]++ {print $1}' \"$LSB_DJOB_HOSTFILE\"", carries=False),
    }
    rules: ClassVar[FlagRules] = FlagRules(
        refused={
            **dict.fromkeys(("-n", "-R span", "-R affinity", "-R cu"), "nodes and resources"),
            **dict.fromkeys(("-W", "-We"), "walltime"),
            **dict.fromkeys(("-o", "-oo", "-e", "-eo"), "nothing (see `grainlike blocks log`)"),
            "-J": "nothing (a block is found by its name)",
            **dict.fromkeys(("-r", "-rn", "-Q"), "nothing (a block never comes back)"),
            "-m all": "nodes",
            **dict.fromkeys(("-I", "-Ip", "-Is", "-IS", "-ISp", "-ISs", "-IX", "-K", "-H", "-h", "-V", "-Zs"), ""),
            **dict.fromkeys(("-i", "-is", "-pack", "-jsdl", "-jsdl_strict"), ""),
        },
        replaced={
            **dict.fromkeys(("-M", "-R mem"), "memory"),
            **dict.fromkeys(("-gpu", "-R ngpus_physical"), "gpus"),
            "-x": "exclusive",
        },
        letters=False,
        lists=("-R",),
        names=_sections,
    )

    def style(self, block: BlockRequest) -> ScriptStyle:
        """Return the parts of the script; LSF would bring the log only at the end, so the script writes its own."""
        return replace(super().style(block), opening=(f"exec >>{shlex.quote(block.log)} 2>&1",))

    def directives(self, block: BlockRequest) -> list[str]:
        """Return the `#BSUB` lines; what LSF itself says at the end is beside the log."""
        cores = block.cores or 1
        said = [("-J", block.name), ("-o", f"{block.log}.lsf"), ("-rn", "")]
        said += [("-n", str(cores * block.nodes)), ("-R", f"span[ptile={cores}]")]
        if block.whole and self.says(block, "exclusive"):
            said.append(("-x", ""))
        if block.memory and self.says(block, "memory"):
            size = f"{mebibytes(block.memory)}MB"
            said += [("-M", size), ("-R", f"rusage[mem={size}]")]
        if block.gpus and self.says(block, "gpus"):
            said.append(("-gpu", f"num={block.gpus}"))
        if block.walltime_s is not None:
            minutes = -(-block.walltime_s // 60)
            said.append(("-W", f"{minutes // 60}:{minutes % 60:02d}"))
        said += [("-q", block.queue)] if block.queue else []
        said += [("-P", block.account)] if block.account else []
        return [" ".join([self.prefix, *map(directive_word, filter(None, words))]) for words in said]

    def submit(self, block: BlockRequest) -> NativeCommand:
        """Return `bsub`, with the script on its standard input."""
        return NativeCommand(("bsub",), self.script(block))

    def native_id(self, stdout: str) -> str:
        """Return the number in `Job <12> is submitted to queue <normal>.`"""
        found = re.findall(r"^Job <([0-9]{1,18})> is submitted", stdout, re.MULTILINE | re.ASCII)
        return found[-1] if found else ""

    def check(self, block: BlockRequest) -> NativeCommand:
        """Return `bsub -H`: it is taken, held, and to be ended at once."""
        return NativeCommand(("bsub", "-H"), self.script(block))

    def list(self, user: str, host: str = "") -> tuple[NativeCommand, ...]:  # noqa: ARG002 - one listing for all hosts
        """Return `bjobs -a -json` over all of the user's jobs."""
        return (NativeCommand(("bjobs", "-a", "-u", user, "-o", _FIELDS, "-json")),)

    def listed(self, said: CommandResult) -> Listing:
        """Return the blocks in a listing of `bjobs -json`."""
        if said.code is not None and _NO_JOBS.search(f"{said.stderr}\n{said.stdout}"):
            return Listing()
        if said.code != 0:
            return Listing(failed=words_of(said) or "no answer in time")
        try:
            records = json.loads(said.stdout, strict=False)["RECORDS"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return Listing(failed=f"bjobs printed no JSON: {words_of(said)}")
        return Listing(tuple(_rows(cast("list[object]", records) if isinstance(records, list) else [])))

    def end(self, natives: Sequence[str]) -> NativeCommand:
        """Return `bkill`."""
        return NativeCommand(("bkill", *natives))


def _rows(records: Sequence[object]) -> Iterator[ListedBlock]:
    for record in records:
        if not isinstance(record, dict):
            continue
        row = cast("Mapping[str, Any]", record)
        name, native, word = (str(row.get(key, "")).strip() for key in ("JOB_NAME", "JOBID", "STAT"))
        if not is_native_name(name) or not native.isdecimal():
            continue
        state = _STATES.get(word, "unknown")
        yield ListedBlock(
            native=native,
            name=name,
            state=state,
            reason=_reason(row, word, state),
            left_s=_left(str(row.get("TIME_LEFT", ""))) if state == "running" else None,
            nodes=_nodes(str(row.get("EXEC_HOST", ""))),
            start=_said(row, "ESTIMATED_START_TIME" if state == "pending" else "START_TIME"),
        )


def _said(row: Mapping[str, Any], name: str) -> str:
    value = " ".join(str(row.get(name, "")).split())
    return "" if value in _NOTHING else value


def _reason(row: Mapping[str, Any], word: str, state: NativeState) -> str:
    if word == "RUN":
        return ""
    if state == "pending":
        return _said(row, "PEND_REASON").rstrip(";") or word
    code, why = _said(row, "EXIT_CODE"), _said(row, "EXIT_REASON")
    return f"{word}: {why or f'exit code {code}'}" if why or code else word


def _left(text: str) -> float | None:
    """Read `3:59 L`, hours and minutes, these with one digit or two; the letter says whose limit it is."""
    match = re.match(r"\s*([0-9]{1,9}):([0-9]{1,2})(?![0-9:])", text)
    return None if match is None else float(int(match[1]) * 3600 + int(match[2]) * 60)


def _nodes(text: str) -> tuple[str, ...]:
    """Read `16*n1:16*n2`."""
    hosts = [part.rpartition("*")[2].strip() for part in text.split(":")]
    return tuple(dict.fromkeys(host for host in hosts if host not in _NOTHING))
