"""Numbers that no message between processes can carry are refused where they are written."""

import pytest

from grainlike import Retry, WallTime, delayed
from grainlike.errors import ResourceSpecError
from grainlike.resources import parse


def plain(x):
    return x


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"priority": 2**59}, r"priority= must be from -\d+ to \d+, not"),
        ({"priority": -(2**59)}, "priority= must be from"),
        ({"timeout": 2**70}, r"timeout= must be at most 1e\+09 seconds, .* leave it out"),
        ({"retries": 2**64}, "retries= must be at most"),
    ],
)
def test_options_of_functions(options, words):
    with pytest.raises(ValueError, match=words):
        delayed(**options)(plain)


def test_the_largest_are_taken():
    assert delayed(priority=2**59 - 1, timeout=1e9, retries=2**63 - 1)(plain) is not None
    assert WallTime(10**12) == parse(str(WallTime(10**12)))


@pytest.mark.parametrize("options", [{"times": 2**64}, {"losses": 2**64}, {"backoff": 1e10}, {"backoff": (1, 2, 2e9)}])
def test_retries(options):
    with pytest.raises(ValueError, match="at most"):
        Retry(**options)


def test_walltimes():
    with pytest.raises(ResourceSpecError, match="a time must be at most 1e12 seconds"):
        WallTime(10**12 + 1)
