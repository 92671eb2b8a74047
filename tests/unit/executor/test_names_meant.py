"""Names and patterns in one list, as `grainlike worker drain` takes them: a whole name comes first."""

import pytest

from grainlike.head._peers import names_meant

NAMES = ["a[red]", "ar", "ae", "n1", "n2"]


@pytest.mark.parametrize(
    ("patterns", "meant"),
    [
        (["a[red]"], {"a[red]"}),
        (["a[red]", "n?"], {"a[red]", "n1", "n2"}),
        (["a[re]"], {"ar", "ae"}),
        (["*"], set(NAMES)),
        (["n3"], set()),
    ],
)
def test_a_pattern_that_is_a_name_means_that_one_alone(patterns, meant):
    assert names_meant(NAMES, patterns) == meant
