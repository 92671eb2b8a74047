"""Facts from the answers of batch systems: whether a submission was taken, and how blocks are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from grainlike.dialects._block import CommandResult

__all__ = ["Answer", "ListedBlock", "Listing", "NativeState", "Verdict", "answer_without_id", "words_of"]

Verdict = Literal["accepted", "waits", "elsewhere", "refused", "unclear"]
NativeState = Literal["pending", "running", "stuck", "ending", "ended", "unknown"]


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to a submission or to a check.

    Attributes:
        verdict: `accepted`; `waits` (a limit of the site or of the user: try again later); `refused` (it does not
            get better by itself); `elsewhere` (one machine of several refused it: another may take the next one);
            `unclear`: it may have been taken, so look for the block by its name.
        native: the job's id there, if it was accepted. After a check: a held job that is to be ended now.
        words: the batch system's own words.
    """

    verdict: Verdict
    native: str = ""
    words: str = ""


@dataclass(frozen=True, slots=True)
class ListedBlock:
    """Block of ours in a listing.

    Attributes:
        native: the job's id.
        name: the job's name, by which the block is known.
        state: `unknown` for a word that is none of those documented: as before, with the word as reason; `stuck` for a
            job that could not be started, and is kept until somebody takes it out.
        reason: the batch system's own words for why it is so.
        left_s: seconds until the system ends it; None if it does not say.
        nodes: the nodes that it has.
        start: when it started or is expected to, as the system writes it: `2026-11-23T14:20:00`; empty if unknown.
    """

    native: str
    name: str
    state: NativeState
    reason: str = ""
    left_s: float | None = None
    nodes: tuple[str, ...] = ()
    start: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """All blocks of ours that a batch system knows; `failed` says why it does not tell, and then nothing is known."""

    blocks: tuple[ListedBlock, ...] = ()
    failed: str = ""


_WAITS = re.compile(
    r"(QOS|Assoc)Max(?!\w*PerJob)\w*|(QOS|Assoc)Grp\w*|SubmitJobLimit|would exceed|temporarily|try again"
    r"|exceeded quota|too many requests|only \d+ jobs are allowed|maximum number of jobs"
    r"|pending job (slot )?(threshold|limit)|job limit (has been )?(reached|exceeded)",
    re.IGNORECASE,
)
"""Limits of sites and users that another hour may lift; those for one job by itself never do."""

_UNCLEAR = re.compile(
    r"timed? ?out|unable to contact|not responding|zero bytes were transmitted|transport endpoint"
    r"|connection (refused|reset|closed|failure|lost)|closed by remote host|was refused|\bkilled\b|broken pipe"
    r"|cannot connect|lost connection|no route to host"
    r"|unexpected message received|end of file|protocol error|lsf is down|please wait|commlib error"
    r"|failed receiving gdi|answer list from qmaster|can't send|no response|communication failure"
    r"|failed in an lsf library call"
    r"|kex_exchange_identification|ssh_exchange_identification",
    re.IGNORECASE,
)
"""Words of a connection that failed, before or after the job was taken."""

_MOST = 2000
_SIGNALLED = 128
"""Above it, a shell speaks of a signal; but PBS and LSF have such codes of their own, with words."""


def answer_without_id(said: CommandResult) -> Answer:
    """Return the answer that a submission without an id on its output amounts to.

    Example::

        >>> answer_without_id(CommandResult(1, "", "sbatch: error: invalid partition specified: x")).verdict
        'refused'
    """
    words = words_of(said)
    if said.code is None:
        return Answer("unclear", words=words or "no answer in time")
    spoke = bool(said.stdout.strip() or said.stderr.strip())
    if said.code <= 0 or (said.code > _SIGNALLED and not spoke) or _UNCLEAR.search(words):
        return Answer("unclear", words=words)
    return Answer("waits" if _WAITS.search(words) else "refused", words=words)


def words_of(said: CommandResult) -> str:
    """Return what a command said, standard error first, without blank lines; at least its exit code."""
    text = "\n".join(line.rstrip() for line in f"{said.stderr}\n{said.stdout}".splitlines() if line.strip())
    if not text:
        return "" if said.code is None else f"exit code {said.code}"
    return text if len(text) <= _MOST else f"... {text[-_MOST:]}"
