"""What the demonstration tries, says and draws, without running it."""

import sys
from dataclasses import replace

import pytest

from grainlike.cli._own_workers import shares
from grainlike.cli.demo._baseline import Baseline, run_baseline
from grainlike.cli.demo._jobs import FOLDS, candidates
from grainlike.cli.demo._report import DemoWorkers, drawn, final, intro, other_load, speed_up
from grainlike.cli.demo._sweep import Fit, Sweep, SweepOutcome
from grainlike.graph import Info, graph
from grainlike.jobs import WorkerInfo
from grainlike.resources import Receipt, Usage, parse_allocation

SITE = DemoWorkers([WorkerInfo("local", parse_allocation("cores=[2,3]"), (), 17, 0, 0, 0.0)])


def told(began: float, *cores: int) -> Info:
    given = parse_allocation(f"cores=[{','.join(map(str, cores))}]")
    held = Receipt(cores, {}, (), "none")
    return Info("fit", "succeeded", "local", given, 1, None, held, Usage(1.0, 0.9, 1, 0.9), began, began + 1)


@pytest.fixture
def outcome() -> SweepOutcome:
    tried = candidates(quick=True)
    fits = [
        Fit(candidate, [0.5 + at / 100] * FOLDS, 0.5 + at / 100, told(at, 2 + at % 2))
        for at, candidate in enumerate(tried)
    ]
    return SweepOutcome(fits, 4.0, tried[-1], 9, 10, told(10, 2, 3))


def test_there_is_much_to_try_and_nothing_twice() -> None:
    tried = candidates()
    assert len(tried) >= 60
    assert len({str(candidate) for candidate in tried}) == len(tried)
    assert {candidate.family for candidate in tried} == {"SVC", "ExtraTrees"}


def test_the_sweep_is_one_graph() -> None:
    tried = candidates(quick=True)
    whole = graph(Sweep(tried, width=2, members=3).final_)
    requests = [node.request for node in whole.nodes if node.request]
    assert requests == ["cores=1"] * len(tried) + ["cores=2"]
    assert {"+", "/", "max", ".index"} <= {node.name for node in whole.nodes}


@pytest.mark.parametrize(
    ("cores", "workers", "ids"),
    [
        ([0, 1], 2, [(0,), (1,)]),
        ([4, 5, 8], 2, [(4, 5), (8,)]),
        ([4, 5, 8], 1, [(4, 5, 8)]),
        ([6], 3, [(6,), (7,), (8,)]),
    ],
)
def test_workers_share_the_cores_and_get_one_at_least(
    cores: list[int], workers: int, ids: list[tuple[int, ...]]
) -> None:
    assert [offer.cores for offer in shares(cores, workers)] == ids


def test_the_best_comes_first_and_of_equals_the_quicker(outcome: SweepOutcome) -> None:
    slow, quick, best = outcome.fits[:3]
    usage = Usage(0.1, 0.1, 1, 1.0)
    fits = [slow, replace(quick, mean=slow.mean, told=replace(quick.told, usage=usage)), best]
    ranked = replace(outcome, fits=fits).ranked()
    assert [fit.candidate for fit in ranked] == [best.candidate, quick.candidate, slow.candidate]


def test_the_picture_has_a_bar_for_every_job_and_the_final_fit(outcome: SweepOutcome) -> None:
    picture = drawn(outcome, SITE)
    assert picture.count("<g><title>") == len(outcome.fits) + 1
    assert picture.count("local, cores 2, 3") == 1
    assert "not pinned" not in picture


def test_the_speed_up_is_the_quotient_of_what_was_measured(outcome: SweepOutcome) -> None:
    said = speed_up(outcome, Baseline(6.0, [fit.scores for fit in outcome.fits], [2], 1), SITE)
    assert "1.50 ×" in said
    assert "core 2, 1 thread," in said
    assert "All scores are equal" in said


def test_different_scores_are_not_hidden(outcome: SweepOutcome) -> None:
    scores = [fit.scores for fit in outcome.fits]
    scores[0] = [0.0] * FOLDS
    said = speed_up(outcome, Baseline(6.0, scores, [], 4), SITE)
    assert f"Only {len(scores) - 1} of {len(scores)}" in said
    assert "not pinned, 4 threads" in said
    assert "All scores" not in said


def test_the_final_fit_tells_its_cores_and_what_it_read_right(outcome: SweepOutcome) -> None:
    said = final(outcome, 24)
    assert "cores 2, 3" in said
    assert "9 of 10" in said


def test_logical_cores_are_said_to_be_so(outcome: SweepOutcome) -> None:
    site = DemoWorkers([WorkerInfo("n1", parse_allocation("cores=[2,9]"), (9,), 17, 0, 0, 0.0)])
    assert "(core 9: logical" in intro(site)
    assert "logical" not in intro(SITE)
    assert site.real_cores == [2]
    assert "on 1 core (and 1 logical) in" in drawn(outcome, site)


def test_a_sequential_run_that_dies_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RuntimeError, match="exit code 1"):
        run_baseline(0, quick=True, on_fit=lambda: None)


def test_the_times_of_a_busy_machine_are_explained() -> None:
    note = other_load(4.25, 2)
    assert "load 4.2 on 2 cores" in note
    assert "speed-up" in note
    assert "cores that were busy" in note
    assert other_load(0.9, 2) == ""
