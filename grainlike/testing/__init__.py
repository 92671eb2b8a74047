"""Testing kit: clusters of real workers on one machine, with nodes, cores and GPUs that it need not have.

For pytest, `pytest_plugins = ["grainlike.testing.plugin"]` in the topmost `conftest.py` brings the fixtures
`executor` and `cluster`; docs/how-to/testing.md shows them. `VirtualCluster` plans in virtual time, and runs nothing.
`Cluster` is for other frameworks, and needs no extra::

    from grainlike import Cores, GPUs
    from grainlike.testing import Cluster

    async with Cluster(nodes=[Cores(4), Cores(4) & GPUs(2)]) as cluster:
        assert await (train @ GPUs(1))("small") == 3
        await cluster.kill_worker("n2")
        await cluster.assert_all_finished()
"""

from typing import TYPE_CHECKING

from grainlike._later import later
from grainlike.testing._warning import ImplicitExecutorWarning

if TYPE_CHECKING:
    from grainlike.testing._cluster import Cluster
    from grainlike.testing._virtual import VirtualCluster

__all__ = ["Cluster", "ImplicitExecutorWarning", "VirtualCluster"]

# The plugin is loaded by runs of pytest that may have no use for a cluster.
if not TYPE_CHECKING:
    __getattr__ = later(__name__, {"Cluster": "_cluster", "VirtualCluster": "_virtual"})
