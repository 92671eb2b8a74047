"""Shell patterns for names: what matches is as `fnmatch` has it."""

from __future__ import annotations

from fnmatch import fnmatchcase

from hypothesis import given
from hypothesis import strategies as st

from grainlike.history._patterns import matcher

TEXTS = st.text("ab-]![*?\\\n", max_size=12)


@given(TEXTS, TEXTS)
def test_it_matches_what_fnmatch_does(pattern: str, name: str) -> None:
    assert bool(matcher(pattern)(name)) == (not pattern or fnmatchcase(name, pattern))
