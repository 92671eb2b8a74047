"""A head's mind that is put away as an image and read again decides as it would have, in every world."""

import importlib
import pkgutil

import pytest

from grainlike.head.durable._snapshot import classes_of_books
from grainlike.journal import draw_image, read_image
from grainlike.simulation import _head
from simtest import simulate

SEEDS = range(12)


@pytest.mark.parametrize("workload", ["any", "recursion", "gangs"])
def test_a_mind_from_an_image_decides_as_before(workload, monkeypatch):
    """Of worlds with faults, an image at every seventh event: what is told and answered is the same, bit for bit."""
    expected = [simulate(seed, workload).digest for seed in SEEDS]
    tell, count = _head.SimulatedHead._tell, 0

    def tell_another(head, event):
        nonlocal count
        count += 1
        if count % 7 == 0:
            head.scheduler = read_image(draw_image(head.scheduler, classes_of_books()), classes_of_books(), {})
        tell(head, event)

    monkeypatch.setattr(_head.SimulatedHead, "_tell", tell_another)
    assert [simulate(seed, workload).digest for seed in SEEDS] == expected
    assert count > 500


def test_all_of_the_books_may_be_in_an_image():
    names = classes_of_books()
    for room in ("grainlike.resources", "grainlike.scheduler"):
        for module in pkgutil.iter_modules(importlib.import_module(room).__path__):
            for name, thing in vars(importlib.import_module(f"{room}.{module.name}")).items():
                if isinstance(thing, type) and thing.__module__ == f"{room}.{module.name}":
                    assert names[f"{thing.__module__}.{thing.__qualname__}"] is thing, name
