"""Who goes next to an engine: by priority and age, past those for whom there is no room, and not for ever."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from grainlike.backends._admission import PASSES, AdmissionQueue
from grainlike.resources import Cores, Ledger, Request


@dataclass(eq=False)
class Job:
    name: str
    request: Request
    rank: int = 0


class Site:
    """An engine of some cores, on which what was admitted stays until it is ended."""

    def __init__(self, cores: int) -> None:
        self.ledger = Ledger(Cores(range(cores)))
        self.queue: AdmissionQueue[Job] = AdmissionQueue()
        self.running: dict[str, object] = {}

    def take(self, job: Job) -> bool:
        grant = self.ledger.grant(job.request)
        if grant is not None:
            self.running[job.name] = grant
        return grant is not None

    def admit(self) -> list[str]:
        return [job.name for job in self.queue.admit(self.take)]

    def end(self, name: str) -> None:
        self.ledger.release(self.running.pop(name))


def test_older_ones_go_first_and_higher_ranks_before_them():
    site = Site(3)
    for name, rank in [("a", 0), ("b", 0), ("c", 5), ("d", 5)]:
        site.queue.add(Job(name, Cores(1), rank))
    assert site.admit() == ["c", "d", "a"]


def test_a_wide_one_does_not_hold_up_the_others():
    site = Site(2)
    site.queue.add(Job("holds", Cores(1)))
    assert site.admit() == ["holds"]
    site.queue.add(Job("wide", Cores(2)))
    site.queue.add(Job("narrow", Cores(1)))
    assert site.admit() == ["narrow"]


def test_a_wide_one_is_passed_over_so_many_times_and_no_more():
    site = Site(2)
    site.queue.add(Job("holds", Cores(1)))
    site.admit()
    site.queue.add(Job("wide", Cores(2)))
    for number in range(PASSES + 5):
        site.queue.add(Job(str(number), Cores(1)))
    passed = 0
    while names := site.admit():
        (name,) = names
        passed += 1
        site.end(name)
    assert passed == PASSES
    site.end("holds")
    assert site.admit() == ["wide"]
    site.end("wide")
    assert site.admit() == [str(PASSES), str(PASSES + 1)]


def test_one_that_is_removed_does_not_go():
    site = Site(1)
    first, second = Job("a", Cores(1)), Job("b", Cores(1))
    site.queue.add(first)
    site.queue.add(second)
    assert site.queue.remove(first)
    assert not site.queue.remove(first)
    assert site.admit() == ["b"]


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), max_size=60))
def test_all_go_in_the_end(jobs):
    site = Site(4)
    for number, (cores, rank) in enumerate(jobs):
        site.queue.add(Job(str(number), Cores(cores), rank))
    gone = site.admit()
    while site.running:
        site.end(next(iter(site.running)))
        gone += site.admit()
    assert sorted(gone, key=int) == [str(number) for number in range(len(jobs))]
