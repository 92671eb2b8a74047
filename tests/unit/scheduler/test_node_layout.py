"""A node says at once what it can never lay out, instead of letting it stand before everything else."""

from __future__ import annotations

from grainlike.resources import Cores, Topology, offer_of
from grainlike.scheduler import NodeScheduler, StartLease, TellCompleted
from grainlike.wire import Assign, ClassSpec, Code, Define, FunctionSpec

TWO_NODES = Topology.read(
    {
        "/sys/devices/system/node/node0/cpulist": "0-3",
        "/sys/devices/system/node/node1/cpulist": "4-7",
    }
)


def assign(scheduler, cls, job):
    return scheduler.handle(Assign(cls, False, [job], [1], [1], [b""], []), 0.0)


def test_what_is_wider_than_every_numa_node_is_told_of_at_once():
    scheduler = NodeScheduler(offer_of(Cores(8), own_cores=range(8)), TWO_NODES)
    requests = [Cores(6, pack="numa"), Cores(4, pack="numa"), Cores(8)]
    classes = [ClassSpec(number, str(request), False) for number, request in enumerate(requests, 1)]
    scheduler.handle(Define([FunctionSpec(1, b"", "f", False, None)], classes), 0.0)
    (told,) = [action for action in assign(scheduler, 1, 1) if isinstance(action, TellCompleted)]
    assert (told.completed.jobs, told.completed.codes) == ([1], [Code.UNFIT])
    (lease,) = [action for action in assign(scheduler, 2, 2) if isinstance(action, StartLease)]
    assert lease.allocation.startswith("cores=[0,1,2,3]")
    scheduler.check()
