"""The parts of a world: time, channels, and the command."""

from __future__ import annotations

import gc

from grainlike.resources import Cores
from grainlike.simulation import Channel, Clock, Delay, Dice, FunctionPlan, JobPlan, Workload
from simtest import Trial, equal_nodes
from simtest.__main__ import main


def live(clock):
    while clock.run(1):
        pass


def test_things_happen_in_order_of_time_and_then_of_asking():
    clock, seen = Clock(), []
    for at, what in ((2.0, "late"), (1.0, "one"), (1.0, "two"), (-1.0, "now")):
        clock.at(at, seen.append, what)
    live(clock)
    assert seen == ["now", "one", "two", "late"]
    assert clock.now == 2.0


def test_a_channel_keeps_its_order_whatever_each_message_takes():
    clock, seen = Clock(), []
    channel = Channel(clock, Dice(1), Delay(0.0, 1.0, spike=5.0, spiky=0.3))
    for number in range(50):
        channel.send(seen.append, number)
    live(clock)
    assert seen == list(range(50))


def test_two_channels_overtake_each_other():
    clock, dice, seen = Clock(), Dice(1), []
    one, other = Channel(clock, dice, Delay(0.0, 1.0)), Channel(clock, dice, Delay(0.0, 1.0))
    for number in range(20):
        one.send(seen.append, number)
        other.send(seen.append, number)
    live(clock)
    assert seen != sorted(seen)


def test_what_a_channel_holds_comes_later_and_in_order():
    clock, seen = Clock(), []
    channel = Channel(clock, Dice(1), Delay(0.1, 0.1))
    channel.send(seen.append, 1)
    channel.hold()
    clock.at(1.0, channel.send, seen.append, 2)
    live(clock)
    assert seen == []
    channel.release()
    channel.send(seen.append, 3)
    live(clock)
    assert seen == [1, 2, 3]


def test_what_was_under_way_is_lost_with_the_connection():
    clock, seen = Clock(), []
    channel = Channel(clock, Dice(1), Delay(0.1, 0.1))
    channel.send(seen.append, "lost")
    assert [arguments for _, arguments in channel.cut()] == [("lost",)]
    channel.send(seen.append, "after")
    live(clock)
    assert seen == ["after"]


def test_the_command_prints_what_happened(capsys):
    assert main(["--seed", "1", "--workload", "one_wide", "--jobs", "30"]) == 0
    out = capsys.readouterr().out
    for word in ("makespan", "utilisation", "events/s", "widest job", "lower bound", "digest"):
        assert word in out


def test_the_command_fails_where_a_promise_is_broken(capsys, monkeypatch):
    def check(self):
        assert len(self.jobs) < 5, "too many jobs"

    monkeypatch.setattr("grainlike.scheduler.HeadScheduler.check", check)
    assert main(["--seed", "3", "--workload", "bursts", "--jobs", "40", "--calm"]) == 1
    assert "s: too many jobs" in capsys.readouterr().out


def test_what_ends_leaves_nothing_for_the_cycle_collector():
    """Thousands of schedulers in one process would have it walk over all of them, for nothing."""
    plans = tuple(JobPlan(at % 2, Cores(1), 0.002, at=0.001 * at, awaits=bool(at % 2)) for at in range(300))
    workload = Workload("small", (FunctionPlan("plain"), FunctionPlan("coroutine", is_async=True)), plans)
    world = Trial(0, workload, equal_nodes(2, Cores(2)), judged=False)
    gc.collect()
    gc.disable()
    try:
        outcome = world.run()
        found = gc.collect()
    finally:
        gc.enable()
    assert outcome.seen["settled SUCCEEDED"] == 300
    assert found == 0
