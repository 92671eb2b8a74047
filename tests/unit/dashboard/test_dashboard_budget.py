"""Budget of a page: how much it is sent within any second, on a clock of the test's own."""

from random import Random

from grainlike.dashboard._budget import BYTES_PER_S, UPDATES_PER_S, PageBudget


def sent_in_any_second(sent):
    """The most updates, and the most bytes, of those within one second from any of them on."""
    most_updates = most_bytes = 0
    for at, _ in sent:
        span = [size for other, size in sent if at <= other < at + 1.0]
        most_updates, most_bytes = max(most_updates, len(span)), max(most_bytes, sum(span))
    return most_updates, most_bytes


def test_within_any_second_no_more_is_sent_than_the_bounds_say_and_nearly_all_of_it():
    random, budget, now, sent = Random(7), PageBudget(), 0.0, []
    for _ in range(3000):
        now += random.expovariate(30)
        room = budget.room(now)
        assert 0 <= room <= BYTES_PER_S
        size = min(room, random.choice([40, 2_000, 30_000, 80_000]))
        if size:
            budget.spend(now, size)
            sent.append((now, size))
    updates, size = sent_in_any_second(sent)
    assert updates == UPDATES_PER_S
    assert 0.95 * BYTES_PER_S < size <= BYTES_PER_S


def test_what_a_pace_remembers_is_bounded_by_its_second():
    budget = PageBudget()
    for step in range(100_000):
        if budget.room(step / 100):
            budget.spend(step / 100, 100)
    assert len(budget._sent) <= UPDATES_PER_S
