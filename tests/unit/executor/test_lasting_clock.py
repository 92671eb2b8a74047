"""A clock that goes on where it was, also when the machine was started again."""

from grainlike.head.durable._clock import PersistentClock


def test_it_goes_on_where_it_was_after_the_machine_was_started_again():
    now = 5.0
    clock = PersistentClock(lambda: now)
    assert clock() == 5.0
    clock.has_been(1000.0)
    assert clock() == 1000.0
    now = 7.5
    assert clock() == 1002.5
    assert clock.here(1003.0) == 8.0


def test_a_moment_that_is_past_changes_nothing():
    clock = PersistentClock(lambda: 50.0)
    clock.has_been(40.0)
    assert clock() == 50.0
    assert clock.here(51.0) == 51.0
