"""Devices: an offer's ids in the words of the mask that the worker was started with, and back."""

import pytest

from grainlike_worker.runner.common._devices import Devices


@pytest.mark.parametrize(
    ("mask", "offer", "asked", "shown"),
    [
        (None, [0, 1], [0, 1], "0,1"),
        (None, [4, 7], [7], "7"),
        ("2,3", [0, 1], [0], "2"),
        ("2,3", [0, 1], [1], "3"),
        ("3,2", [0, 1], [0, 1], "3,2"),
        ("2,3", [2, 3], [3], "3"),
        ("2, 3", [0, 1], [1], "3"),
        ("GPU-8f2a,GPU-77", [0, 1], [1], "GPU-77"),
        ("MIG-1/2/3", [0], [0], "MIG-1/2/3"),
        ("2,-1,3", [0, 1], [0, 1], "2"),
        ("", [0, 1], [0, 1], ""),
        ("5", [0, 1], [0, 1], "5"),
        ("2,3", [0, 1], [], ""),
    ],
)
def test_a_mask_is_respected(mask, offer, asked, shown):
    devices = Devices.under(mask, offer)
    assert devices.shown(asked) == shown
    again = Devices.of_option(devices.option[1]) if devices.option else Devices()
    assert again.shown(asked) == shown
    hidden = devices.hidden(offer)
    assert again.ids(shown) == sorted(set(asked) - set(hidden))


def test_what_the_mask_does_not_show_is_named():
    assert Devices.under("5", [0, 1, 2]).hidden([0, 1, 2]) == [1, 2]
    assert Devices.under(None, [0, 1]).hidden([0, 1]) == []
    assert Devices.under("4,5", [4, 5]).hidden([4, 5]) == []
