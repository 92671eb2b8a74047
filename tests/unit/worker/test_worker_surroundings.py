"""The directory and environment that all runners of a worker begin with."""

import os

import pytest

from grainlike_worker.daemon._child import Surroundings


def test_variables_are_those_of_the_moment_also_where_a_mapping_took_their_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OF_THE_MOMENT", "one")
    taken = Surroundings.now()
    monkeypatch.setenv("OF_THE_MOMENT", "two")
    assert taken.environment()["OF_THE_MOMENT"] == "one"
    monkeypatch.setattr(os, "environ", {"OF_THE_MOMENT": "three"})
    assert Surroundings.now().environment() == {"OF_THE_MOMENT": "three"}
