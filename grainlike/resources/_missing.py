"""Why nobody can ever give what a request asks for: what is missing, what is short, who comes nearest."""

from collections.abc import Sequence
from dataclasses import dataclass

from grainlike.resources._allocation import Allocation
from grainlike.resources._quantity import plain
from grainlike.resources._request import Request


@dataclass(frozen=True, slots=True)
class Short:
    """One name of which everybody who has it has too little; amounts are nano-units."""

    name: str
    asked: int
    best: int

    def __str__(self) -> str:
        return f"{self.name} (asked {plain(self.asked)}, at most {plain(self.best)})"


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a request is impossible; `str` says it in one line.

    Attributes:
        request: what was asked.
        absent: names that no offer has, sorted.
        short: names that some offer has, but none enough of, sorted.
        nearest: the worker that lacks least; None without workers.
        lacking: the names that the nearest worker lacks or is short of, sorted.
    """

    request: Request
    absent: tuple[str, ...]
    short: tuple[Short, ...]
    nearest: str | None
    lacking: tuple[str, ...]

    def __str__(self) -> str:
        reasons = [f"no worker has {', '.join(self.absent)}"] if self.absent else []
        reasons += [f"too little {', '.join(map(str, self.short))}"] if self.short else []
        reasons += [] if reasons else ["no single worker has all of it"]
        if self.nearest is not None:
            reasons.append(f"nearest is {self.nearest}, short of {', '.join(self.lacking)}")
        return f"{self.request} can never be given: {'; '.join(reasons)}"


def missing(request: Request, offers: Sequence[tuple[str, Allocation]]) -> Missing | None:
    """Tell why none of the `offers` (worker's name, all it has) could ever give `request`; None if one could.

    Example:
        >>> why = missing(Cores(4) & Resource("foo", 1), [("n1", Cores([0, 1]))])
        >>> why.absent, why.nearest, why.lacking
        (('foo',), 'n1', ('cores', 'foo'))
    """
    if any(request.fits_units(offer.units) for _, offer in offers):
        return None
    best = {name: max((offer.units.get(name, 0) for _, offer in offers), default=0) for name in request.units}
    absent = tuple(name for name, most in best.items() if not most)
    short = tuple(Short(n, asked, best[n]) for n, asked in request.units.items() if 0 < best[n] < asked)
    nearest = min(offers, key=lambda offer: _distance(request, offer[1]), default=None)
    if nearest is None:
        return Missing(request, absent, short, None, request.names)
    return Missing(request, absent, short, nearest[0], _lacking(request, nearest[1]))


def _lacking(request: Request, offer: Allocation) -> tuple[str, ...]:
    return tuple(name for name, asked in request.units.items() if offer.units.get(name, 0) < asked)


def _distance(request: Request, offer: Allocation) -> tuple[int, float]:
    """Order workers by how many names they lack, then by how much of them."""
    lacking = _lacking(request, offer)
    return len(lacking), sum(1 - offer.units.get(name, 0) / request.units[name] for name in lacking)
