"""The words for what is no amount: `WallTime`, `Token`, `Limit`, `Rate`, and `Nodes` for gangs."""

from operator import index
from typing import SupportsIndex

from grainlike.errors import ResourceSpecError
from grainlike.resources._allocation import as_request
from grainlike.resources._kinds import checked_word
from grainlike.resources._quantity import UNIT, Amount, plain, quantity
from grainlike.resources._request import EMPTY, NO_IDS, Request, build, either
from grainlike.resources._terms import Terms
from grainlike.resources._time import clock, duration

MOST_NODES = 2**16  # of one gang


def WallTime(  # noqa: N802
    time: "Amount | None" = None, *, soft: "Amount | None" = None, group: str | None = None
) -> Request:
    """Ask for time: the job starts only where so much is left, and may not run longer.

    Times are seconds, or text: `"1:30:00"`, `"90:00"` (minutes and seconds), `"1-12:00:00"` (a day and a half).

    Args:
        time: how long the job may run.
        soft: how much must be left where it starts, if less than `time` will usually do.
        group: learn both from the jobs of this group that have run; `time` counts until enough have.

    Raises:
        ResourceSpecError: neither a time nor a group, a time that is not above zero or could be read in two ways,
            or a `soft` without or above `time`.

    Example:
        >>> WallTime("1:30:00").walltime, str(WallTime(90))
        (5400.0, 'walltime=0:01:30')
    """
    hard = None if time is None else duration(time)
    least = None if soft is None else duration(soft)
    if hard is None and group is None:
        raise ResourceSpecError("walltime: write a time, as WallTime('1:30:00'), or a group, as WallTime(group='fit')")
    if least is not None and (hard is None or least > hard):
        raise ResourceSpecError(f"walltime: soft={clock(least)} goes with a time that is not shorter")
    learned = None if group is None else checked_word("walltime group", group)
    return _only(Terms(walltime=hard, soft=None if least == hard else least, group=learned))


def Token(tag: str) -> Request:  # noqa: N802
    """Ask for a worker that carries `tag`; as part of an offer, carry it. A request may have several.

    Raises:
        ResourceSpecError: not a name.

    Example:
        >>> (Cores(1) & Token("big")).fits(Cores([6, 7]) & Token("big") & Token("new"))
        True
    """
    return _only(Terms(tokens=(checked_word("token", tag),)))


def Limit(name: str, amount: Amount) -> Request:  # noqa: N802
    """Run under the limit `name`: at most `amount` of the jobs that name it run at the same time in the whole cluster.

    Raises:
        ResourceSpecError: not a name, or an amount below one, under which no job could ever run.

    Example:
        >>> parse("cores=1 limit:db=1") == Cores(1) & Limit("db", 1)
        True
    """
    most = _positive(f"limit:{checked_word('limit', name)}", amount)
    if most < UNIT:
        raise ResourceSpecError(f"limit:{name}={plain(most)}: under a limit below one no job could ever run")
    return _only(Terms(limits=((name, most),)))


def Rate(name: str, per_second: Amount) -> Request:  # noqa: N802
    """Launch under the rate `name`: of all jobs that name it, at most so many are launched in a second.

    Raises:
        ResourceSpecError: not a name, or a rate not above zero.

    Example:
        >>> dict(Rate("api", 10).rates)
        {'api': 10000000000}
    """
    return _only(Terms(rates=((checked_word("rate", name), _positive(f"rate:{name}", per_second)),)))


def Nodes(number: SupportsIndex, *, each: Request) -> Request:  # noqa: N802
    """Ask for a gang: `each` on this many nodes at the same time, all or nothing.

    The job runs on one of them, in a process of its own, and sees all in `GVAR.job.nodes`: name, host and allocation.
    Programs that it starts find the path of a host file for `mpirun` in `GRAINLIKE_HOSTFILE`, and the path of a rank
    file, with a line for each core, in `GRAINLIKE_RANKFILE`.

    Times and tokens of `each` hold for the gang, and may also stand beside it: `Nodes(4, each=...) & Token("big")`.
    Limits and rates stand beside it, because they are counted once. `Nodes(1, each=r)` is `r`.

    Raises:
        ResourceSpecError: the number is not a whole number above zero, or `each` has no amounts, or is a gang itself.

    Example:
        >>> gang = Nodes(4, each=Cores(32)) & Token("infiniband")
        >>> gang.nodes, gang.N, str(gang)
        (4, 32, 'nodes=4(cores=32) token=infiniband')
    """
    count = _count(number)
    return either(tuple(_gang(count, option) for option in as_request(each).options))


def _gang(count: int, each: Request) -> Request:
    if not each.units:
        raise ResourceSpecError(f"nodes: each={each!r} has no amounts")
    if each.terms.nodes > 1:
        raise ResourceSpecError(f"nodes: each={each!r} is a gang itself")
    if each.terms.limits or each.terms.rates:
        raise ResourceSpecError("nodes: a limit or a rate stands beside Nodes(...), for it is counted once")
    return each if count == 1 else build(Request, each.units, NO_IDS, each.terms._replace(nodes=count))


def _count(number: object) -> int:
    if not isinstance(number, SupportsIndex) or isinstance(number, bool) or not 0 < index(number) <= MOST_NODES:
        raise ResourceSpecError(f"nodes={number!r}: a gang has from 1 to {MOST_NODES} nodes")
    return index(number)


def _positive(name: str, value: Amount) -> int:
    try:
        units = quantity(value)
    except ResourceSpecError as error:
        raise ResourceSpecError(f"{name}: {error}") from None
    if units <= 0:
        raise ResourceSpecError(f"{name}={plain(units)}: an amount must be greater than zero")
    return units


def _only(terms: Terms) -> Request:
    return build(Request, EMPTY.units, NO_IDS, terms)
