"""Terms of a request beside its amounts: times, tokens, limits, rates, gangs, packing, growth."""

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from grainlike.errors import ResourceSpecError
from grainlike.resources._quantity import UNIT, plain

Pack: TypeAlias = Literal["numa", "spread"]
Pairs: TypeAlias = tuple[tuple[str, int], ...]


class Growth(NamedTuple):
    """Growth of memory after a job ran out of it; in nano-units.

    Attributes:
        factor: what it is multiplied with.
        most: where it ends; None for no end.
    """

    factor: int
    most: int | None


class Terms(NamedTuple):
    """Everything in a request that is no amount; amounts and times in it are nano-units.

    Only `NO_TERMS` is equal to `NO_TERMS`: code that makes terms that may be empty passes them through `settled`,
    so that the many requests without any are told by `is`.
    """

    walltime: int | None = None
    soft: int | None = None
    group: str | None = None
    tokens: tuple[str, ...] = ()
    limits: Pairs = ()
    rates: Pairs = ()
    nodes: int = 1
    pack: Pack | None = None
    growth: Growth | None = None

    def keys(self) -> Iterator[str]:
        """Iterate over the names of the parts that stand for themselves in text, sorted."""
        yield from (f"limit:{name}" for name, _ in self.limits)
        if self.nodes != 1:
            yield "nodes"
        yield from (f"rate:{name}" for name, _ in self.rates)
        if self.tokens:
            yield "token"
        if self.walltime is not None or self.group is not None:
            yield "walltime"


NO_TERMS = Terms()


def settled(terms: Terms) -> Terms:
    """Give `terms`, or `NO_TERMS` itself where they are empty."""
    return NO_TERMS if terms == NO_TERMS else terms


def kept(terms: Terms) -> Terms:
    """Return the terms that a grant keeps of its request, and all that an offer can have: the time and the tokens."""
    return terms if terms is NO_TERMS else settled(Terms(walltime=terms.walltime, tokens=terms.tokens))


def joined(a: Terms, b: Terms) -> Terms:
    """Give both; ResourceSpecError where both say the same."""
    if a is NO_TERMS:
        return b
    if b is NO_TERMS:
        return a
    if "walltime" in {*a.keys()} & {*b.keys()}:
        raise ResourceSpecError("walltime is there twice; write it once")
    timed = a if a.walltime is not None or a.group is not None else b
    return Terms(
        walltime=timed.walltime,
        soft=timed.soft,
        group=timed.group,
        tokens=_both_tokens(a.tokens, b.tokens),
        limits=_both("limit", a.limits, b.limits),
        rates=_both("rate", a.rates, b.rates),
        # Packing and growth belong to amounts, and no amount is there twice; nor is a gang.
        nodes=max(a.nodes, b.nodes),
        pack=a.pack or b.pack,
        growth=a.growth or b.growth,
    )


def _both_tokens(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({*a} & {*b})
    if twice:
        raise ResourceSpecError(f"token={twice[0]} is there twice; write it once")
    return tuple(sorted((*a, *b)))


def _both(kind: str, a: Pairs, b: Pairs) -> Pairs:
    mine, theirs = dict(a), dict(b)
    twice = next((name for name in mine if name in theirs), None)
    if twice is not None:
        one, other = plain(mine[twice]), plain(theirs[twice])
        raise ResourceSpecError(f"{kind}:{twice} is there twice, as {one} and {other}; write it once")
    return tuple(sorted({**mine, **theirs}.items()))


def grown(units: int, growth: Growth | None) -> int | None:
    """Give what `units` of memory grow to, in whole bytes; None where they cannot grow."""
    if growth is None or (growth.most is not None and units >= growth.most):
        return None
    more = -(-units * growth.factor // (UNIT * UNIT)) * UNIT
    return more if growth.most is None else min(more, growth.most)
