"""Explanation of a job: its state and what it waits for, with the words for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import msgspec

from grainlike.resources import Request, amount_texts, quantity, shown_amounts

if TYPE_CHECKING:
    from grainlike.resources import Amount, Missing

__all__ = ["MOST_NAMED", "Explanation", "Shortage"]

MOST_NAMED = 5
"""Most jobs, or inputs, that are named in an explanation."""

_TIME_UNITS = (("h", 3600.0, 7200.0), ("min", 60.0, 120.0), ("s", 1.0, 0.1), ("ms", 0.001, 0.0))
"""Units of time: name, seconds, and the least seconds that are shown in it."""


class Shortage(msgspec.Struct, frozen=True):
    """A resource of which the nearest worker has too little free; amounts in its own unit (cores, bytes, ...).

    Attributes:
        name: the resource.
        asked: the amount that the job asks for.
        free: the amount that is free there.
        capacity: the amount that the worker has.
    """

    name: str
    asked: object
    free: object
    capacity: object

    def __str__(self) -> str:
        amounts = (quantity(cast("Amount", one)) for one in (self.asked, self.free, self.capacity))
        asked, free, capacity = amount_texts(self.name, *amounts)
        return f"{self.name} (asked {asked}, free {free} of {capacity})"


class Explanation(msgspec.Struct, frozen=True):
    """State of a job and what it waits for. `str` gives it in a sentence or two.

    Attributes:
        job: its number; 0 for a placeholder that is no job (yet).
        state: queued, moving, planned, ahead or leased; for a placeholder that is no job (yet) lazy, inputs, local,
            unsent, or the state in which it ended.
        attempt: number of its attempt.
        request: what it asks for.
        reason: one word for what holds a queued job up; `""` for a job that waits for nothing. `"turn"`: others of its
            class are before it. `"room"`: too little is free. `"reservation"`: the room is kept for an older wide job.
            `"walltime"`: no worker lives long enough. `"limit"`, `"rate"`: a limit or a rate is used up. `"lent"`: what
            is free belongs to jobs that await jobs of their own. `"workers"`: none is here. `"never"`: no worker here
            could ever run it. `"suspect"`, `"quarantine"`: `nearest` gets no jobs for now, and `why`. `"moving"`: its
            inputs are on their way to `nearest`, or made again (`why`). `"preferred"`: `nearest` has most of its inputs
            and is full; elsewhere it may start in `starts_in_s`. `"store"`: there is no room for its inputs, now or at
            all, or little for what it may give (`why`). `"paused"`: the head starts nothing for now, and `why`.
            `"backoff"`: it is tried again in `starts_in_s`. A leased job may wait, too: for `"jobs"` of its own, or for
            `"cores"` that it lent to others meanwhile.
        worker: the worker that has it; None without one.
        before: number of jobs that go first.
        nearest: the worker that comes nearest; of a gang, the nearest of those that are not in `members`.
        short: of what `nearest` has too little free.
        holders: numbers of the jobs that hold what is short on `nearest`, or of those that a job waits for.
        ration: the limit or the rate that it waits for.
        starts_in_s: seconds until it may start, an estimate from declared and learned run times; None if not known.
        would_start_with: a smaller request that would start now; None if there is none.
        missing: why no worker here can ever run it; None if one can.
        members: of a gang (`Nodes`), the workers on which it has its slots, the leader first; while it waits for room,
            those that could take part now.
        lacking: how many more workers a gang needs.
        inputs: names of the calls whose values it still needs.
        words: what a head elsewhere says of its job, instead of the words that the rest would give.
        attempts: most attempts that it may have.
        why: the reason in words, where one word does not say it.
        blocked_s: seconds for which a coroutine has blocked the event loop that it shares with others; else None.
        kept: of a call with `cache=`, whether its result was kept from another time, and why it runs if it does.
        pools: which pool of workers would help a job that waits, and what its blocks wait for.
        tried: at which workers its value found no room when it ran there.
        halted: which of a worker's processes has it and does not go on, in a sentence; empty if it goes on.
    """

    job: int
    state: str
    attempt: int
    request: Request
    reason: str = ""
    worker: str | None = None
    before: int = 0
    nearest: str | None = None
    short: tuple[Shortage, ...] = ()
    holders: tuple[int, ...] = ()
    ration: str | None = None
    starts_in_s: float | None = None
    would_start_with: Request | None = None
    missing: Missing | None = None
    members: tuple[str, ...] = ()
    lacking: int = 0
    inputs: tuple[str, ...] = ()
    words: str = ""
    attempts: int = 0
    why: str = ""
    blocked_s: float | None = None
    kept: str = ""
    pools: str = ""
    tried: str = ""
    halted: str = ""

    def __str__(self) -> str:
        return self.words or " ".join([*_sentences(self), *([self.pools] if self.pools else [])])


def _sentences(this: Explanation) -> list[str]:
    """Return the explanation in words."""
    said = [_SAY[this.reason](this) if this.reason else _placed(this)]
    if this.starts_in_s is not None and this.reason not in ("backoff", "preferred"):
        said.append(f"It can start in about {_about(this.starts_in_s)}.")
    if this.would_start_with is not None:
        said.append(f"It would start now with {this.would_start_with!r}.")
    if this.blocked_s is not None:
        said.append(f"It has blocked the event loop that it shares with others for {this.blocked_s:.3g} s.")
    tried = f"It ran before: {this.tried}." if this.tried else ""
    return [*said, *filter(None, (tried, this.kept, this.halted))]


def _about(seconds: float) -> str:
    """Return an estimate of a time, with two digits: more are not known of it."""
    unit, size = next((unit, size) for unit, size, least in _TIME_UNITS if seconds >= least)
    return f"{float(f'{seconds / size:.2g}'):g} {unit}"


def _placed(this: Explanation) -> str:
    if this.lacking:
        return f"Job {this.job} waits for {this.lacking} of {', '.join(this.members)} to hold its slots there."
    if this.members and this.state == "leased":
        return f"Job {this.job} runs on {', '.join(this.members)}, attempt {this.attempt}."
    words = {"planned": "is on its way to", "ahead": "waits for its turn at", "leased": "runs on"}
    if this.state in words:
        why = f", {this.why}" if this.why else ""
        return f"Job {this.job} {words[this.state]} {this.worker}{why}, attempt {this.attempt}."
    if this.state == "inputs":
        shown = ", ".join(this.inputs[:MOST_NAMED]) + (", ..." if len(this.inputs) > MOST_NAMED else "")
        return f"It waits for {len(this.inputs)} inputs: {shown}."
    return _UNBOUND.get(this.state, f"It has {this.state}.")


def _no_room(this: Explanation) -> str:
    short = ", ".join(map(str, this.short))
    held = f", held by jobs {', '.join(map(str, this.holders))}" if this.holders else ""
    if this.lacking:
        ready = f"there is room on {', '.join(this.members)}" if this.members else "there is room on none"
        more = "1 worker" if this.lacking == 1 else f"{this.lacking} workers"
        return f"Job {this.job} waits for room on {more} more: {ready}; next is {this.nearest}, short of {short}{held}."
    return f"Job {this.job} waits for room: nearest is {this.nearest}, short of {short}{held}."


def _again(this: Explanation) -> str:
    who = f"Job {this.job}" if this.job else "It"
    return f"{who} tries again in {this.starts_in_s or 0.0:.1f} s, attempt {this.attempt} of {this.attempts}."


def _shut(this: Explanation) -> str:
    return f"Job {this.job} would fit on {this.nearest}, which gets no jobs for now: {this.why}."


_UNBOUND = {
    "lazy": "It has not been awaited or started.",
    "local": "It runs in the caller's process.",
    "unsent": "It is about to be sent: calls go to the head some at a time, once there is one.",
}

_SAY: dict[str, Callable[[Explanation], str]] = {
    "backoff": _again,
    "paused": lambda this: f"Job {this.job} is not started for now: {this.why}.",
    "moving": lambda this: (
        f"Job {this.job} waits for {this.why}{'' if this.nearest is None else f', on their way to {this.nearest}'}."
    ),
    "store": lambda this: f"Job {this.job} waits for room in a store: {this.why}.",
    "preferred": lambda this: f"Job {this.job} waits for {this.nearest}: {this.why}.",
    "suspect": _shut,
    "quarantine": _shut,
    "turn": lambda this: (
        f"Job {this.job} waits for its turn: {this.before} "
        f"{'job that asks for the same goes' if this.before == 1 else 'jobs that ask for the same go'} first."
    ),
    "room": _no_room,
    "reservation": lambda this: (
        f"Job {this.job} would fit on {this.nearest}, which is kept for job {', '.join(map(str, this.holders))}."
    ),
    "walltime": lambda this: f"Job {this.job} needs more time than any worker has left; {this.nearest} has most.",
    "lent": lambda this: (
        f"Job {this.job} would fit on {this.nearest}, on cores that jobs {', '.join(map(str, this.holders))} have "
        "lent: they go to jobs of their own, and to such as are known to end within a second."
    ),
    "jobs": lambda this: (
        f"Job {this.job} runs on {this.worker}, attempt {this.attempt}, and waits for its own jobs "
        f"{', '.join(map(str, this.holders))}."
    ),
    "cores": lambda this: f"Job {this.job} goes on as soon as {this.worker} has room for the cores that it lent.",
    "limit": lambda this: f"Job {this.job} waits for {this.ration}: as many run as it allows.",
    "rate": lambda this: f"Job {this.job} waits for {this.ration}: launches are spaced.",
    "workers": lambda this: f"Job {this.job} waits for a worker: none is connected.",
    "never": lambda this: (
        f"Job {this.job} waits for a worker that can give {shown_amounts(str(this.request))}: "
        f"{'none can lay it out as it is asked for (see pack=)' if this.missing is None else this.missing.why}."
    ),
}
