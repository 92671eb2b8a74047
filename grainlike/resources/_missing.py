"""Why no worker can ever give what a request asks for: what is missing, what is short, who comes nearest."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from grainlike.resources._allocation import Allocation
from grainlike.resources._kinds import amount_texts, is_indexed, shown_amounts
from grainlike.resources._mapping import TIME, TOKEN
from grainlike.resources._near import near_name
from grainlike.resources._quantity import UNIT, plain
from grainlike.resources._request import Request, by_name
from grainlike.resources._time import clock

Offers = Sequence[tuple[str, Allocation]]

_NODES = "nodes"


@dataclass(frozen=True, slots=True)
class Short:
    """Resource of which all workers that have it have too little.

    Attributes:
        name: the resource.
        asked: the amount that was asked for, in billionths of the resource's unit (cores, bytes, seconds).
        best: the most that any worker has, in billionths of that unit.
    """

    name: str
    asked: int
    best: int

    def __str__(self) -> str:
        amounts = (self.asked, self.best)
        asked, best = map(clock, amounts) if self.name == TIME else amount_texts(self.name, *amounts)
        return f"{self.name} (asked {asked}, at most {best})"


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a request is impossible; `str` says it in one line.

    Attributes:
        request: what was asked.
        option: the option of it that comes nearest; the request itself where it leaves no choice.
        absent: names that no offer has, sorted; a token is named as `token=big`.
        short: names that some offer has, but none enough of, sorted; `nodes` where too few workers fit a gang.
        nearest: the worker that lacks least; None without workers.
        lacking: the names that the nearest worker lacks or is short of, sorted.
        meant: of absent names, those that may have been meant instead, in pairs.
    """

    request: Request
    option: Request
    absent: tuple[str, ...]
    short: tuple[Short, ...]
    nearest: str | None
    lacking: tuple[str, ...]
    meant: tuple[tuple[str, str], ...] = ()

    @property
    def why(self) -> str:
        """The reasons alone: what holds now, of workers that may still change."""
        meant = dict(self.meant)
        absent = [f"{name} (did you mean {meant[name]}?)" if name in meant else name for name in self.absent]
        reasons = [f"no worker has {', '.join(absent)}"] if absent else []
        short = [one for one in self.short if one.name != _NODES]
        for words, counted in (("too few", True), ("too little", False)):
            of_these = [str(one) for one in short if is_indexed(one.name) is counted]
            reasons += [f"{words} {', '.join(of_these)}"] if of_these else []
        reasons += [self._too_few(one) for one in self.short if one.name == _NODES]
        reasons += [] if reasons else ["no single worker has all of it"]
        if self.nearest is not None and self.lacking:
            reasons.append(f"nearest is {self.nearest}, short of {', '.join(self.lacking)}")
        return "; ".join(reasons)

    def _too_few(self, nodes: Short) -> str:
        there = nodes.best // UNIT
        said = f"there {'is' if there == 1 else 'are'} {there}"
        return f"it needs {plain(nodes.asked)} workers that can give {shown_amounts(str(self.option.each))}; {said}"

    def __str__(self) -> str:
        choice = "" if self.option is self.request else f"; of these {shown_amounts(str(self.option))} comes nearest"
        return f"{shown_amounts(str(self.request))} can never be given{choice}: {self.why}"


def missing(request: Request, offers: Offers) -> Missing | None:
    """Tell why none of the `offers` (worker's name, all it has) could ever give `request`; None if one could.

    Of a request with several options all must be impossible; the answer is about the nearest. A gang needs as many
    workers as it has nodes. Limits and rates belong to the cluster, and no offer has them.

    Example:
        >>> why = missing(Cores(4) & Resource("foo", 1), [("n1", Cores([0, 1]))])
        >>> why.absent, why.nearest, why.lacking
        (('foo',), 'n1', ('cores', 'foo'))
    """
    found = []
    for option in request.options:
        lacks = [_Lack(name, tuple(_lacks(option, offer))) for name, offer in offers]
        if sum(not lack.needs for lack in lacks) >= option.nodes:
            return None
        found.append((option, lacks))
    option, lacks = min(found, key=lambda one: min((lack.distance for lack in one[1]), default=(0, 0.0)))
    return _explained(request, option, offers, lacks)


class _Need(NamedTuple):
    """Of one name, more is asked than one worker has."""

    name: str
    asked: int
    has: int


class _Lack(NamedTuple):
    """All that one worker lacks."""

    worker: str
    needs: tuple[_Need, ...]

    @property
    def distance(self) -> tuple[int, float]:
        """Order workers by how many names they lack, then by how much of them."""
        return len(self.needs), sum(1 - need.has / need.asked for need in self.needs)


def _explained(request: Request, option: Request, offers: Offers, lacks: list[_Lack]) -> Missing:
    asked = _asked(option)
    best = {name: max((_has(name, offer) for _, offer in offers), default=0) for name in asked}
    absent = tuple(name for name, most in best.items() if not most)
    short = [Short(name, amount, best[name]) for name, amount in asked.items() if 0 < best[name] < amount]
    fitting = sum(not lack.needs for lack in lacks)
    if option.nodes > 1 and fitting:
        short = sorted([*short, Short(_NODES, option.nodes * UNIT, fitting * UNIT)], key=lambda one: one.name)
    meant = _meant(absent, offers)
    nearest = min((lack for lack in lacks if lack.needs), key=lambda lack: lack.distance, default=None)
    if nearest is None:
        return Missing(request, option, absent, tuple(short), None, () if lacks else tuple(asked), meant)
    lacking = tuple(need.name for need in nearest.needs)
    return Missing(request, option, absent, tuple(short), nearest.worker, lacking, meant)


def _meant(absent: tuple[str, ...], offers: Offers) -> tuple[tuple[str, str], ...]:
    named = [name for name in absent if not name.startswith(_TAG)]
    known = {name for _, offer in offers for name in offer.units} if named else ()
    found = ((name, near_name(name, known)) for name in named)
    return tuple((name, near) for name, near in found if near is not None)


def _lacks(option: Request, offer: Allocation) -> Iterator[_Need]:
    for name, amount in _asked(option).items():
        has = _has(name, offer)
        if has < amount:
            yield _Need(name, amount, has)


_TAG = f"{TOKEN}="
_ENDLESS = 10**40  # more nanoseconds than any request asks for


def _asked(option: Request) -> Mapping[str, int]:
    """Give all that one worker must have, by name, sorted; a token counts as one."""
    terms = option.terms
    time = terms.walltime if terms.soft is None else terms.soft
    asked = dict(option.units) | {f"{_TAG}{tag}": UNIT for tag in terms.tokens} | ({} if time is None else {TIME: time})
    return by_name(asked)


def _has(name: str, offer: Allocation) -> int:
    if name == TIME:
        return _ENDLESS if offer.terms.walltime is None else offer.terms.walltime
    if name.startswith(_TAG):
        return UNIT * (name.removeprefix(_TAG) in offer.tokens)
    return offer.units.get(name, 0)
