"""Grid Engine: `qsub`, `qstat -xml`, `qdel`, `qrsh -inherit`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar
from xml.etree import ElementTree

from grainlike.dialects._amounts import clock, mebibytes, seconds
from grainlike.dialects._block import BlockRequest, CommandResult, NativeCommand, is_native_name
from grainlike.dialects._dialect import Dialect
from grainlike.dialects._facts import Answer, ListedBlock, Listing, NativeState, answer_without_id, words_of
from grainlike.dialects._flags import FlagRules, directive_word
from grainlike.dialects._script import Spread

__all__ = ["GridEngineDialect"]

_HOSTS = "awk '{print $1}' \"$PE_HOSTFILE\""

_LIST = 'export TZ=UTC0; date +%Y-%m-%dT%H:%M:%S; exec qstat -xml -r -u "$1"'
"""Shell text for a listing: it says when jobs have started, and only beside a clock that is what they have left."""


def _listed_names(value: str) -> list[str]:
    return [part.partition("=")[0].strip() for part in value.split(",")]


@dataclass(frozen=True, slots=True)
class GridEngineDialect(Dialect):
    """Text for Grid Engine, and facts from its text.

    Attributes:
        pe: the parallel environment, which blocks of more than one slot need.

    Example::

        >>> GridEngineDialect().submitted(CommandResult(0, "12\\n")).native
        '12'
    """

    pe: str = ""

    kind = "sge"
    title = "Grid Engine"
    prefix = "#$"
    finders: ClassVar[tuple[str, ...]] = ("SGE_*",)
    # It would take a job for which no queue is good, and keep it.
    hopeless: ClassVar[re.Pattern[str] | None] = re.compile(
        r"unknown|denied|not allowed|does not exist|no suitable queues", re.IGNORECASE
    )
    spreads: ClassVar[dict[str, Spread]] = {
        # Its own host may have no slot left for a task beside the job itself.
        "qrsh": Spread('qrsh -inherit -nostdin "$host"', hosts=_HOSTS, carries=False, here=True),
        "ssh": Spread('ssh -n "$host"', hosts=_HOSTS, carries=False),
        "mpirun": Spread("mpirun -np {nodes} --map-by ppr:1:node", rank="${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}"),
    }
    rules: ClassVar[FlagRules] = FlagRules(
        refused={
            **dict.fromkeys(("-l h_rt", "-l s_rt"), "walltime"),
            "-pe": "pe",
            "-t": "max",
            **dict.fromkeys(("-o", "-e", "-j"), "nothing (see `grainlike blocks log`)"),
            "-N": "nothing (a block is found by its name)",
            "-r": "nothing (a block never comes back)",
            "-S": "script",
            **dict.fromkeys(("-sync", "-now", "-terse", "-b", "-verify", "-help", "-w", "-@", "-C"), ""),
        },
        replaced={
            **dict.fromkeys(("-l h_vmem", "-l mem_free", "-l s_vmem", "-l h_rss"), "memory"),
            **dict.fromkeys(("-l gpu", "-l ngpus", "-l gpus", "-l cuda"), "gpus"),
            **dict.fromkeys(("-l exclusive", "-l excl"), "exclusive"),
        },
        letters=False,
        lists=("-l",),
        names=_listed_names,
    )

    def directives(self, block: BlockRequest) -> list[str]:
        """Return the `#$` lines.

        Raises:
            ValueError: several slots without a parallel environment, or a log whose path has a `$` or a `:` in it.
        """
        if "$" in block.log or ":" in block.log:
            raise ValueError(f"{block.log!r}: Grid Engine reads $ and : in the path of a log as something else")
        slots = (block.cores or 1) * block.nodes
        if slots > 1 and not self.pe:
            raise ValueError(f"pe: Grid Engine gives {slots} slots in a parallel environment alone; name one")
        said: list[tuple[str, ...]] = [
            ("-N", block.name),
            ("-o", block.log),
            ("-j", "y"),
            ("-r", "n"),
            ("-notify", ""),  # without it, who is deleted is killed at once
            ("-S", "/bin/bash"),
            ("-cwd", ""),
        ]
        said += [("-pe", self.pe, str(slots))] if self.pe else []
        if block.whole and self.says(block, "exclusive"):
            said.append(("-l", "exclusive=true"))
        if block.memory and self.says(block, "memory"):
            each = -(-mebibytes(block.memory) // (block.cores or 1))
            said.append(("-l", f"h_vmem={each}M"))
        if block.gpus and self.says(block, "gpus"):
            said.append(("-l", f"gpu={block.gpus}"))
        if block.walltime_s is not None:
            said.append(("-l", f"h_rt={clock(block.walltime_s)}"))
        said += [("-q", block.queue)] if block.queue else []
        said += [("-P", block.account)] if block.account else []
        return [" ".join([self.prefix, *map(directive_word, filter(None, words))]) for words in said]

    def submit(self, block: BlockRequest) -> NativeCommand:
        """Return `qsub -terse`, with the script on its standard input."""
        return NativeCommand(("qsub", "-terse"), self.script(block))

    def native_id(self, stdout: str) -> str:
        """Return the last line that is a number."""
        found = re.findall(r"^([0-9]{1,18})\s*$", stdout, re.MULTILINE | re.ASCII)
        return found[-1] if found else ""

    def check(self, block: BlockRequest) -> NativeCommand:
        """Return `qsub -w v`, which submits nothing."""
        return NativeCommand(("qsub", "-w", "v"), self.script(block))

    def checked(self, said: CommandResult) -> Answer:
        """Return what the answer to `qsub -w v` means: its words say it, whatever its exit code."""
        words = words_of(said)
        if re.search(r"found (possible assignment|suitable queue)", words, re.IGNORECASE):
            return Answer("accepted", words=words)
        answer = answer_without_id(said)
        return Answer("refused", words=words) if said.code == 0 else answer

    def list(self, user: str, host: str = "") -> tuple[NativeCommand, ...]:  # noqa: ARG002 - one listing for all hosts
        """Return `qstat -xml` over all of the user's jobs, behind the time of day."""
        return (NativeCommand(("sh", "-c", _LIST, "sh", user)),)

    def listed(self, said: CommandResult) -> Listing:
        """Return the blocks in a listing of `qstat -xml`. Jobs that have ended are not in it."""
        if said.code != 0:
            return Listing(failed=words_of(said) or "no answer in time")
        begin = max(0, said.stdout.find("<"))
        text, times = said.stdout[begin:], _TIME.findall(said.stdout[:begin])
        if "<!" in text or not text.strip():
            return Listing(failed=f"qstat printed no XML: {words_of(said)}")
        try:
            tree = ElementTree.fromstring(text.encode("utf-8", "replace"))  # noqa: S314 - it has no declarations
        except (ElementTree.ParseError, ValueError, LookupError):
            return Listing(failed="qstat printed XML that is none")
        return Listing(tuple(_rows(tree, times[-1] if times else "")))

    def end(self, natives: Sequence[str]) -> NativeCommand:
        """Return `qdel`."""
        return NativeCommand(("qdel", *natives))


_TIME = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\s*$", re.MULTILINE | re.ASCII)


def _rows(tree: ElementTree.Element, now: str) -> Iterator[ListedBlock]:
    for job in tree.iter("job_list"):
        name, native = (_text(job, tag) for tag in ("JB_name", "JB_job_number"))
        if not is_native_name(name) or not native.isdecimal():
            continue
        word = _text(job, "state")
        state = _state(word)
        queue = _text(job, "queue_name")
        yield ListedBlock(
            native=native,
            name=name,
            state=state,
            reason=_reason(state, word, native),
            left_s=_left(job, now) if state == "running" else None,
            nodes=(queue.partition("@")[2],) if "@" in queue else (),
            start=_text(job, "JAT_start_time"),
        )


def _text(job: ElementTree.Element, tag: str) -> str:
    return " ".join((job.findtext(tag) or "").split())


def _reason(state: NativeState, word: str, native: str) -> str:
    if state == "stuck":
        return f"state {word}: it could not be started, as qacct -j {native} says (is its directory on the nodes?)"
    return "" if word == "r" else f"state {word}" if word else "no state"


def _left(job: ElementTree.Element, now: str) -> float | None:
    """Return the seconds that a job has left, by its start and the limit that it has asked for."""
    asked = {request.get("name", ""): request.text or "" for request in job.iter("hard_request")}
    limit = seconds(asked.get("h_rt", ""))
    if limit is None:
        return None
    with suppress(ValueError, TypeError):  # no time, or one with a zone beside one without
        gone = (datetime.fromisoformat(now) - datetime.fromisoformat(_text(job, "JAT_start_time"))).total_seconds()
        return max(0.0, limit - max(0.0, gone))
    return None


def _state(word: str) -> NativeState:
    """Read letters as `qw`, `hqw`, `r`, `t`, `dr`, `Eqw`."""
    if not word or not re.fullmatch(r"[a-zA-Z]+", word) or set(word) - set("qwhrtTsSNPRdEzx"):
        return "unknown"
    if "z" in word or "x" in word:
        return "ended"
    if "d" in word:
        return "ending"
    if "E" in word:
        return "stuck"
    if "q" in word or "w" in word:
        return "pending"
    return "running"
