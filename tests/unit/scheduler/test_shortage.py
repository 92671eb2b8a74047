"""A shortage is written in the units in which people ask."""

from decimal import Decimal

import pytest
from scheduler_cluster import Cluster

from grainlike.resources import Cores, Memory
from grainlike.scheduler import Shortage


def test_a_shortage_of_memory_is_written_with_units():
    cluster = Cluster(Cores(4) & Memory("8Gi"))
    cluster.function(1)
    cluster.submit(Cores(1) & Memory("5Gi"), 1.0)
    job = cluster.submit(Cores(1) & Memory("4Gi"), 1.0)
    explanation = cluster.head.explain(job, 0.0)
    assert explanation.short[0].asked == 4 << 30
    assert "short of memory (asked 4Gi, free 3Gi of 8Gi)" in str(explanation)


@pytest.mark.parametrize(("asked", "text"), [(2, "2"), (0.5, "0.5"), (Decimal("1.5"), "1.5")])
def test_other_amounts_are_written_as_numbers(asked, text):
    assert str(Shortage("cores", asked, 0, 4)) == f"cores (asked {text}, free 0 of 4)"
