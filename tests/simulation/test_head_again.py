"""A head's scheduler that is put away as an image and read again decides as it would have, in every world."""

import os

import pytest

from grainlike.head.durable._schema import records
from grainlike.journal import draw_image, read_image
from grainlike.simulation import _head
from simtest import simulate

SEEDS = max(12, int(os.environ.get("GRAINLIKE_TEST_SEEDS", "0")) // 1000)


@pytest.mark.parametrize("workload", ["any", "recursion", "gangs"])
def test_a_mind_from_an_image_decides_as_before(workload, monkeypatch):
    """Of worlds with faults, an image at every seventh event: what is told and answered is the same, bit for bit."""
    seeds = range(SEEDS // 2 if workload == "recursion" else SEEDS)  # a recursion's worlds have eight times the jobs
    expected = [simulate(seed, workload).digest for seed in seeds]
    tell, count = _head.SimulatedHead._tell, 0

    def tell_another(head, event):
        nonlocal count
        count += 1
        if count % 7 == 0:
            head.scheduler = read_image(draw_image(head.scheduler, records()), records(), {})
        tell(head, event)

    monkeypatch.setattr(_head.SimulatedHead, "_tell", tell_another)
    assert [simulate(seed, workload).digest for seed in seeds] == expected
    assert count > 500
