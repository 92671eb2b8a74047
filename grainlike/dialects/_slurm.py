"""Slurm: `sbatch`, `squeue`, `scancel`, `srun`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar

from grainlike.dialects._amounts import clock, expand_hosts, mebibytes, seconds
from grainlike.dialects._block import BlockRequest, CommandResult, NativeCommand
from grainlike.dialects._dialect import Dialect
from grainlike.dialects._facts import Answer, ListedBlock, Listing, NativeState, answer_without_id, words_of
from grainlike.dialects._flags import FlagRules, directive_word
from grainlike.dialects._script import Spread

__all__ = ["SlurmDialect"]

_LIST = ("squeue", "-h", "-t", "all", "-u")
_FORMAT = "%i|%j|%T|%L|%r|%N|%S"
_ROW = re.compile(
    r"^(?P<id>[0-9]+)\|(?P<name>gl[0-9a-f]{8}-[0-9]{1,9})\|(?P<state>[A-Z_a-z]+)\|(?P<left>[^|\n]*)"
    r"\|(?P<reason>[^\n]*)\|(?P<nodes>[^|\n]*)\|(?P<start>[^|\n]*)$",
    re.MULTILINE | re.ASCII,
)

_STATES: dict[str, NativeState] = {
    **dict.fromkeys(("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"), "pending"),
    **dict.fromkeys(("CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING"), "running"),
    **dict.fromkeys(("COMPLETING", "STAGE_OUT"), "ending"),
    **dict.fromkeys(("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"), "ended"),
    **dict.fromkeys(("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"), "ended"),
}
_UNCONFIGURED = re.compile("could not establish a configuration source|fetch_config", re.IGNORECASE)
"""Words of a command that does not find its Slurm: nothing was asked."""

_PLAIN = frozenset({"PENDING", "RUNNING"})
"""States to which their reason says it all."""
_NOTHING = frozenset({"", "None", "(null)", "N/A"})

_SRUN = (
    "srun --overlap --export=ALL -N {nodes} -n {nodes} --ntasks-per-node=1 -c {cores} --no-kill --kill-on-bad-exit=0"
)
_OURS = ("--parsable", "--test-only", "--wait", "-W", "--help", "--usage", "--version", "-h", "-V", "--uid", "--gid")


class SlurmDialect(Dialect):
    """Text for Slurm, and facts from its text.

    Example::

        >>> SlurmDialect().submitted(CommandResult(0, "1234\\n")).native
        '1234'
    """

    kind = "slurm"
    title = "Slurm"
    prefix = "#SBATCH"
    finders: ClassVar[tuple[str, ...]] = ("SLURM_CONF", "SLURM_CONF_SERVER")
    # Not: "node configuration is not available", which is also said while nodes are drained; a submission waits then.
    hopeless: ClassVar[re.Pattern[str] | None] = re.compile(
        r"invalid|than permitted|denied|unrecognized", re.IGNORECASE
    )
    spreads: ClassVar[dict[str, Spread]] = {
        "srun": Spread(_SRUN, rank="${SLURM_PROCID:-0}"),
        "mpirun": Spread("mpirun -np {nodes} --map-by ppr:1:node", rank="${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}"),
        "ssh": Spread('ssh -n "$host"', hosts='scontrol show hostnames "$SLURM_JOB_NODELIST"', carries=False),
    }
    rules: ClassVar[FlagRules] = FlagRules(
        refused={
            **dict.fromkeys(("--nodes", "-N"), "nodes"),
            **dict.fromkeys(("--ntasks", "-n", "--ntasks-per-node", "--ntasks-per-core"), "nodes"),
            **dict.fromkeys(("--ntasks-per-socket", "--ntasks-per-gpu"), "nodes"),
            **dict.fromkeys(("--cpus-per-task", "-c"), "resources = 'cores=N'"),
            **dict.fromkeys(("--array", "-a"), "max"),
            **dict.fromkeys(("--time", "-t"), "walltime"),
            **dict.fromkeys(("--output", "-o", "--error", "-e"), "nothing (see `grainlike blocks log`)"),
            **dict.fromkeys(("--job-name", "-J"), "nothing (a block is found by its name)"),
            **dict.fromkeys(("--requeue", "--no-requeue"), "nothing (a block never comes back)"),
            "--wrap": "wrap",
            **dict.fromkeys(("--clusters", "-M"), "via"),
            **dict.fromkeys(_OURS, ""),
        },
        replaced={
            **dict.fromkeys(("--mem", "--mem-per-cpu", "--mem-per-gpu"), "memory"),
            "--exclusive": "exclusive",
            **dict.fromkeys(("--gres", "--gpus", "-G", "--gpus-per-node", "--gpus-per-task"), "gpus"),
            "--gpus-per-socket": "gpus",
        },
        alone="HIkKOQsvVWh",
    )

    def directives(self, block: BlockRequest) -> list[str]:
        """Return the `#SBATCH` lines: one task a node, and nothing that comes back by itself."""
        said = [f"--job-name={block.name}", f"--output={block.log.replace('%', '%%')}", "--open-mode=append"]
        said += [f"--nodes={block.nodes}", "--ntasks-per-node=1", "--no-requeue", "--no-kill"]
        if block.whole:
            said += ["--exclusive"] if self.says(block, "exclusive") else []
            said += ["--mem=0"] if self.says(block, "memory") else []
        else:
            said.append(f"--cpus-per-task={block.cores or 1}")
        if block.memory and self.says(block, "memory"):
            said.append(f"--mem={mebibytes(block.memory)}M")
        if block.gpus and self.says(block, "gpus"):
            said.append(f"--gres=gpu:{block.gpus}")
        if block.walltime_s is not None:
            said.append(f"--time={clock(block.walltime_s)}")
        said += [f"--partition={block.queue}"] if block.queue else []
        said += [f"--account={block.account}"] if block.account else []
        return [f"{self.prefix} {directive_word(word)}" for word in said]

    def cores_of(self, block: BlockRequest) -> str:
        """Return shell text of a node's cores."""
        return '"$SLURM_CPUS_ON_NODE"' if block.whole else str(block.cores or 1)

    def submit(self, block: BlockRequest) -> NativeCommand:
        """Return `sbatch --parsable`, with the script on its standard input."""
        return NativeCommand(("sbatch", "--parsable"), self.script(block))

    def native_id(self, stdout: str) -> str:
        """Return the last line that is an id, perhaps with a cluster's name behind it."""
        found = re.findall(r"^([0-9]{1,18})(?:;\S*)?$", stdout.replace("\r", ""), re.MULTILINE | re.ASCII)
        return found[-1] if found else ""

    def check(self, block: BlockRequest) -> NativeCommand:
        """Return `sbatch --test-only`, with the script on its standard input."""
        return NativeCommand(("sbatch", "--test-only"), self.script(block))

    def checked(self, said: CommandResult) -> Answer:
        """Return what the answer to `sbatch --test-only` means; it is on standard error either way."""
        if said.code == 0:
            return Answer("accepted", words=words_of(said))
        answer = answer_without_id(said)
        return Answer("unclear", words=answer.words) if _UNCONFIGURED.search(answer.words) else answer

    def list(self, user: str, host: str = "") -> tuple[NativeCommand, ...]:  # noqa: ARG002 - one listing for all hosts
        """Return `squeue` over all of the user's jobs: by ids, one that is forgotten fails the whole call."""
        return (NativeCommand((*_LIST, user, "-o", _FORMAT)),)

    def listed(self, said: CommandResult) -> Listing:
        """Return the blocks in a listing of `squeue`; other jobs of the user's have other names."""
        if said.code != 0:
            return Listing(failed=words_of(said) or "no answer in time")
        return Listing(tuple(self._rows(said.stdout)))

    def _rows(self, text: str) -> Iterator[ListedBlock]:
        for row in _ROW.finditer(text):
            word = row["state"].upper()
            state = _STATES.get(word, "unknown")
            start = row["start"].strip()
            yield ListedBlock(
                native=row["id"],
                name=row["name"],
                state=state,
                reason=_reason(word, row["reason"]),
                left_s=seconds(row["left"]) if state == "running" else None,
                nodes=expand_hosts(row["nodes"].strip()),
                start="" if start in ("N/A", "Unknown") else start,
            )

    def end(self, natives: Sequence[str]) -> NativeCommand:
        """Return `scancel`, which also succeeds for jobs that it does not know."""
        return NativeCommand(("scancel", *natives))


def _reason(word: str, said: str) -> str:
    reason = "" if said.strip() in _NOTHING else said.strip()
    if reason:
        return reason if word in _PLAIN else f"{word}: {reason}"
    return "" if word == "RUNNING" else word
