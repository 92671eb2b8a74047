"""Places in the page of a shared runner: which job of each lease was called last."""

import os

from grainlike_worker.ipc import _steps
from grainlike_worker.ipc._steps import CALLED, PLACES, CalledPlaces, StepPage


def test_another_process_reads_which_jobs_were_called_and_a_place_serves_again_when_all_are_answered_for():
    ours = StepPage.create()
    theirs = StepPage.attach(os.dup(ours.fd))
    places = CalledPlaces()
    first, second = places.give(7, [1, 2, 3]), places.give(8, [1])
    assert len({0, first, second}) == 3
    assert places.called(ours.words) == {}
    theirs.words[CALLED + first] = 2
    assert places.called(ours.words) == {7: 1}
    places.answered(7, 2, ours.words)
    assert places.give(9, [1]) not in (0, first, second), "what it has called may yet be lost"
    assert places.called(ours.words) == {7: 1}
    places.answered(7, 1, ours.words)
    places.answered(7, 1, ours.words)
    assert places.give(10, [1, 2, 3, 4, 5]) == first
    assert places.called(ours.words) == {}, "nothing of the lease before is left there"
    theirs.close()
    ours.close()


def test_without_a_place_all_may_have_been_called(monkeypatch):
    monkeypatch.setattr(_steps, "PLACES", 2)
    page = StepPage.create()
    places = CalledPlaces()
    assert [places.give(1, [1, 2, 3, 4]), places.give(2, [1, 2, 3, 4])] == [1, 0]
    page.words[CALLED] = 1  # where those write that have none
    assert places.called(page.words) == {2: 3}
    places.answered(2, 4, page.words)
    places.answered(1, 4, page.words)
    assert places.give(3, [1]) == 1
    page.close()


def test_the_last_place_is_in_the_page():
    page = StepPage.create()
    page.words[CALLED + PLACES - 1] = 1
    assert len(page.words) == CALLED + PLACES
    page.close()
