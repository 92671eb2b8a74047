"""Values that names and waiting calls of a session keep, whether or not a program refers to them."""

from __future__ import annotations

from typing import Any

import pytest

from grainlike.head.values._owners import ValueOwners


class Session:
    """An owner of values."""

    number = 7
    name = "sweep"


@pytest.fixture
def owners() -> ValueOwners:
    """Values 1 and 2 are the session's; 1 has a name and is needed by a call that waits."""
    owners, session = ValueOwners(), Session()
    owner: Any = session
    for value in (1, 2):
        owners.add(value, owner)
    owners.pin(1)
    owners.pin(1)
    return owners


def test_what_nothing_keeps_is_released_with_the_program(owners: ValueOwners) -> None:
    assert owners.unrefer([1, 2]) == [2]
    assert owners.unpin(1) is False
    assert owners.unpin(1) is True
    assert (owners.pins, owners.unreferred) == ({}, {})


def test_what_a_program_refers_to_stays_when_its_name_is_forgotten(owners: ValueOwners) -> None:
    assert [owners.unpin(1), owners.unpin(1)] == [False, False]
    assert owners.unrefer([1]) == [1]


def test_the_next_program_refers_to_what_was_kept_for_it(owners: ValueOwners) -> None:
    owners.unrefer([1, 2])
    owners.refer([1, 9])
    assert [owners.unpin(1), owners.unpin(1)] == [False, False]
    assert owners.owned(7, [1]) == [1]
