"""Cluster in virtual time: nodes that come and go in a plan alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec

from grainlike.dryrun import rehearse, rehearsed, roots_of
from grainlike.graph import Delayed, excuse, unfinished_nodes
from grainlike.resources import Cores, Request, offer_of
from grainlike.simulation import NodePlan
from grainlike.testing._nodes import checked_offer, checked_offers

if TYPE_CHECKING:
    from grainlike.dryrun import Plan
    from grainlike.dryrun._workload import Durations

__all__ = ["VirtualCluster"]


class VirtualCluster:
    """Cluster in virtual time: `run` tells what would run where and when, by the real schedulers; nothing runs.

    It is `grainlike.dry_run` for tests, with nodes that join and leave while jobs run. Hours take a moment, and the
    same calls give the same plan. To join takes a node some milliseconds, as it does in earnest.

    Args:
        nodes: what each node offers from the beginning. They are called n1, n2, and so on.
        durations: seconds of calls, as `dry_run` takes them.
        default: seconds of functions that `durations` does not name.
        sizes: bytes of large values by the name of the function, as `dry_run` takes them.

    Raises:
        TypeError: a node is no request, or some seconds or bytes are no numbers.
        ValueError: there are no nodes, or some seconds or bytes are negative or not finite.
        ResourceSpecError: a node asks for what no worker offers.

    Example::

        virtual = VirtualCluster([Cores(4)], durations={"fit": 600})
        virtual.start_worker(Cores(4), at=300)
        plan = await virtual.run(fits_)
        assert plan.makespan_s < 3600
    """

    def __init__(
        self,
        nodes: Sequence[Request] = (Cores(2),),
        *,
        durations: Durations,
        default: float | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        offers = enumerate(checked_offers(nodes), 1)
        self._nodes = {f"n{number}": NodePlan(offer_of(node, own_cores=())) for number, node in offers}
        rehearsed([], durations, default, sizes)  # for its errors, before a test relies on them
        self._durations, self._default, self._sizes = durations, default, sizes

    def start_worker(self, offer: Request = Cores(2), *, at: float) -> str:  # noqa: B008 - a constant
        """Let one more node join after `at` seconds, and return its name. Nodes are added in the order of time.

        Raises:
            TypeError: `offer` is no request, or `at` no number.
            ResourceSpecError: `offer` asks for what no worker offers.
            ValueError: `at` is not after 0, or before another node that was added.

        Example::

            assert virtual.start_worker(Cores(8), at=60) == "n2"
        """
        _check_seconds(at)
        latest = max(node.joins_at for node in self._nodes.values())
        if not 0 < at < inf or at < latest:
            raise ValueError(f"a node joins after 0 s, and after those that were added before, not at {at!r}")
        name = f"n{len(self._nodes) + 1}"
        self._nodes[name] = NodePlan(offer_of(checked_offer(offer), own_cores=()), joins_at=at)
        return name

    def stop_worker(self, name: str, *, at: float) -> None:
        """Let a node leave after `at` seconds, as at the end of its walltime. Its jobs run elsewhere, from the start.

        Raises:
            KeyError: there is no node of that name.
            TypeError: `at` is no number.
            ValueError: `at` is not after the node has joined.

        Example::

            virtual.stop_worker("n1", at=900)
        """
        _check_seconds(at)
        if name not in self._nodes:
            raise KeyError(f"there is no node {name!r}: there are {', '.join(self._nodes)}")
        node = self._nodes[name]
        if not node.joins_at < at < inf:
            raise ValueError(f"{name} leaves after it has joined, at {node.joins_at:g} s, not at {at!r}")
        self._nodes[name] = msgspec.structs.replace(node, stops_after=at - node.joins_at)

    async def run(self, *placeholders: Delayed[Any] | Iterable[Delayed[Any]]) -> Plan:
        """Return the plan of these placeholders, which stay lazy. It may be called again, for others too.

        Cancelling it stops it; other tasks run meanwhile.

        Raises:
            GraphError: `durations` does not name all functions, and there is no default. A `ValueError`.
            ValueError: some seconds or bytes are negative or not finite.
            TypeError: no placeholder, or no number.

        Example::

            plan = await virtual.run(report_)
            assert [job.worker for job in plan.jobs] == ["n1", "n2"]
        """
        nodes = unfinished_nodes(roots_of(placeholders))
        excuse(nodes)
        return await rehearse(nodes, list(self._nodes.values()), self._durations, self._default, self._sizes)


def _check_seconds(at: object) -> None:
    if isinstance(at, bool) or not isinstance(at, int | float):
        raise TypeError(f"at is a number of seconds, not {type(at).__name__}")
