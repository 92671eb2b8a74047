"""How a runner's time is divided among its jobs: with clocks that are turned by hand."""

from types import SimpleNamespace

import pytest

from grainlike_worker.runner.common import _usage
from grainlike_worker.runner.common._usage import EndedChildren, Laps


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    hands = SimpleNamespace(wall=10.0, cpu=1.0, looks=0)

    def monotonic() -> float:
        hands.looks += 1
        return hands.wall

    monkeypatch.setattr(_usage, "time", SimpleNamespace(monotonic=monotonic))
    return hands


def test_each_lap_begins_where_the_last_one_ended(hands: SimpleNamespace) -> None:
    laps = Laps(lambda: hands.cpu)
    hands.wall, hands.cpu = 10.5, 1.25
    assert laps.lap() == (10.0, 0.5, 0.25)
    hands.wall, hands.cpu = 12.5, 1.5
    assert laps.lap() == (10.5, 2.0, 0.25)
    assert laps.now == 12.5
    assert hands.looks == 3  # one for each end, and one for the first beginning


def test_time_before_a_restart_is_nobodys(hands: SimpleNamespace) -> None:
    laps = Laps(lambda: hands.cpu)
    hands.wall, hands.cpu = 20.0, 5.0
    laps.restart()
    hands.wall, hands.cpu = 20.5, 5.125
    assert laps.lap() == (20.0, 0.5, 0.125)


def test_children_are_asked_for_after_a_lap_in_which_there_can_have_been_one(
    hands: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def used(_: int) -> SimpleNamespace:
        return SimpleNamespace(ru_utime=hands.children / 2, ru_stime=hands.children / 2, ru_maxrss=0)

    monkeypatch.setattr(_usage, "getrusage", used)
    hands.children = 4.0
    laps = Laps(lambda: hands.cpu, EndedChildren())
    hands.wall, hands.children = 10.5, 4.25
    assert laps.lap() == (10.0, 0.5, 0.25)
    hands.wall, hands.children = 10.5 + 2**-15, 5.25  # too short: what has come meanwhile is found by the next
    assert laps.lap() == (10.5, 2**-15, 0.0)
    hands.wall, hands.children = 11.5, 5.5
    assert laps.lap()[2] == 1.25
