"""The whole program on virtual time, in worlds with faults: whatever happens to links and workers, promises are kept.

`GRAINLIKE_TEST_WORLDS` worlds, from number `GRAINLIKE_TEST_SEED` on. A world that fails says its number:
`GRAINLIKE_TEST_WORLDS=1 GRAINLIKE_TEST_SEED=that` plays it again.
"""

import os
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import pytest
from virtual_program import JOBS, Story, play

from grainlike.net._resumable_session import ResumableSession

WORLDS = int(os.environ.get("GRAINLIKE_TEST_WORLDS", "200"))
FIRST = int(os.environ.get("GRAINLIKE_TEST_SEED", "1"))
AT_ONCE = 20

LOSSES = 3
"""A job that was running on so many workers when they were lost is not tried again."""

SEEDS = range(FIRST, FIRST + WORLDS)

EXPECTED = {
    "work": lambda key: {str(key)},
    "fail": lambda key: {f"ValueError {key}"},
    "retried": lambda key: {f"ValueError {key}"},
    "sum": lambda key: {str(2000 * key + 3)},
    "cancelled": lambda key: {str(key), "cancelled"},
    "abandoned": lambda key: {str(key), "None"},
}


def complaints(story: Story) -> list[str]:
    """What was promised and not kept."""
    return [*_outcomes(story), *_executions(story), *_slots(story), *(f"{name} is busy" for name in story.busy)]


def _outcomes(story: Story) -> list[str]:
    found = [f"job {key} has {len(told)} outcomes" for key, told in story.outcomes.items() if len(told) != 1]
    if len(story.outcomes) != JOBS:
        found.append(f"{len(story.outcomes)} of {JOBS} users asked for anything")
    runs = Counter(run.key for run in story.ran)
    for key, told in story.outcomes.items():
        for outcome in told:
            kind, _, what = outcome.partition(": ")
            if what == "lost" and story.ended >= LOSSES <= runs[key]:
                continue  # it was on that many workers when they ended
            if what not in EXPECTED[kind](key):
                found.append(f"job {key}, {kind}, came to {what}")
    return found


def _executions(story: Story) -> list[str]:
    """Once each, but for retries that were asked for and what was on a worker that has ended."""
    whole = Counter(run.key for run in story.ran if run.whole)
    kinds = {key: told[0].partition(":")[0] for key, told in story.outcomes.items() if told}
    found = []
    for key, kind in kinds.items():
        parts = (1000 * key + 1, 1000 * key + 2) if kind == "sum" and key else ()
        for number in (key, *parts):
            most = (2 if kind == "retried" else 1) + story.ended
            least = 0 if kind in ("cancelled", "abandoned") or "lost" in story.outcomes[key][0] else 1
            if not least <= whole[number] <= most:
                found.append(f"job {number}, {kind}, ran {whole[number]} times, and {story.ended} workers ended")
    return found


def _slots(story: Story) -> list[str]:
    """No core of a worker has two jobs at a time."""
    found = []
    for core in sorted({core for run in story.ran for core in run.cores}):
        runs = sorted((run for run in story.ran if core in run.cores), key=lambda run: (run.begun, run.ended))
        for one, next_one in pairwise(runs):
            if next_one.begun < one.ended:
                found.append(f"jobs {one.key} and {next_one.key} were both on {core}")
    return found


@pytest.mark.parametrize("first", SEEDS[::AT_ONCE])
def test_every_promise_is_kept(first: int) -> None:
    _check_all(range(first, min(first + AT_ONCE, FIRST + WORLDS)), _story)


@cache
def _story(seed: int) -> Story:
    """The world of this number, which two tests look at."""
    return play(seed)


def _check_all(seeds: range, story_of: Callable[[int], Story] = play) -> None:
    for seed in seeds:
        assert not complaints(story_of(seed)), f"world {seed}"


def test_a_world_is_the_same_each_time() -> None:
    one, other = _story(FIRST), play(FIRST)
    assert (one.outcomes, one.done, one.ran, one.seconds) == (other.outcomes, other.done, other.ran, other.seconds)


def test_the_worlds_see_every_fault_and_every_outcome() -> None:
    stories = [_story(seed) for seed in range(1, 16)]
    faults = {what.split()[1] for story in stories for what in story.done}
    assert faults == {"_reset", "_silence", "_kill", "_late", "_turn_away"}
    outcomes = {told[0].partition(": ")[0] for story in stories for told in story.outcomes.values()}
    assert outcomes == set(EXPECTED)
    assert any(not run.whole for story in stories for run in story.ran)
    assert any(story.ended for story in stories)


def test_a_link_that_forgets_what_was_on_its_way_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def go_on(self, link, received):
        self._transcript.since(received)
        self._link = link
        return True

    monkeypatch.setattr(ResumableSession, "go_on", go_on)
    with pytest.raises((AssertionError, TimeoutError, BaseExceptionGroup)):
        _check_all(range(1, 16))


def test_a_core_that_two_jobs_have_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    story = play(FIRST)
    assert not complaints(story)
    run = story.ran[0]
    story.ran.append(run._replace(key=-1, begun=run.begun - 1.0))
    assert any("were both on" in complaint for complaint in complaints(story))
