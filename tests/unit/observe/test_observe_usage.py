"""Usage by function, and the rule by which a request is suggested."""

import pytest

from grainlike.observe import UsageSpread, suggested_request, usage_by_function
from grainlike.observe._suggest import percentile, readable_bytes, why_unsuggested
from grainlike.resources import parse
from grainlike.wire import EndedJob

MI, GI = 1 << 20, 1 << 30


def ended(name="fit", outcome="succeeded", *, request="cores=4", ran=10.0, cpu=10.0, peak=700 * MI, **more):
    more = {"error": "", "coroutine": False} | more
    where = ("n1", request, "cores=[0]", 1, 0, "", 0)
    return EndedJob(1, name, outcome, more["error"], *where, 0.0, ran, cpu, peak, 0.0, more["coroutine"])


@pytest.mark.parametrize(
    ("asked", "busy", "peaks", "suggested"),
    [
        ("cores=4 memory=8Gi", [1.02, 0.98, 1.05], [700 * MI, 710 * MI, 750 * MI], "cores=1 memory=900Mi"),
        ("cores=4", [3.7] * 20, [], "cores=4"),
        ("cores=4", [2.1] * 19 + [4.0], [], "cores=2"),
        ("cores=4", [2.11] * 19 + [4.0], [], "cores=3"),
        ("cores=4", [2.0] * 18 + [4.0] * 2, [], "cores=4"),
        ("cores=1", [0.01] * 3, [], "cores=1"),
        ("cores=2 memory=4Gi", [1.0, 1.0], [GI] * 3, "cores=2 memory=1280Mi"),
        ("cores=2", [1.0] * 3, [GI] * 3, "cores=1"),
        ("cores=2 memory=1Gi", [1.0] * 3, [0, 0, 0, GI, GI], "cores=1 memory=1Gi"),
        ("gpus=1 memory=4Gi", [1.0] * 3, [GI] * 3, "gpus=1 memory=1280Mi"),
        ("cores=2 gpus=1 walltime=1:00:00", [1.0] * 3, [], "cores=1 gpus=1 walltime=1:00:00"),
        ("cores=4 memory=1Gi:grow=2:max=4Gi", [4.0] * 3, [2 * GI] * 3, "cores=4 memory=2560Mi:grow=2:max=4Gi"),
    ],
)
def test_what_was_used_and_a_margin_is_suggested_and_the_rest_stays(asked, busy, peaks, suggested):
    assert suggested_request(asked, busy, peaks) == str(parse(suggested))


@pytest.mark.parametrize(
    ("asked", "busy", "peaks"),
    [
        ("cores=4", [1.0, 1.0], [GI, GI]),
        ("cores=4", [1.0, 1.0], [GI] * 3),
        ("gpus=1", [1.0] * 3, [GI] * 3),
        ("cores=4", [], [0, 0, 0, 0]),
        ("cores=4 | gpus=1", [1.0] * 9, [GI] * 9),
        ("nodes=2(cores=4)", [1.0] * 9, [GI] * 9),
        ("", [1.0] * 9, [GI] * 9),
        ("of another release=", [1.0] * 9, [GI] * 9),
        ("memory=1Gi:grow=2:max=2Gi", [], [2 * GI] * 9),
    ],
)
def test_nothing_is_suggested_without_evidence(asked, busy, peaks):
    assert suggested_request(asked, busy, peaks) is None


TAKES = "too little evidence: it takes"


@pytest.mark.parametrize(
    ("asked", "busy", "peaks", "why"),
    [
        ("cores=1", [], [], f"{TAKES} 3 jobs that ran for 0.1 s or longer, none did"),
        (
            "cores=1 memory=1Gi",
            [1.0] * 2,
            [GI, 0],
            f"{TAKES} 3 jobs that ran for 0.1 s or longer, 2 did; 3 whose memory is known, 1 has it",
        ),
        (
            "cores=1 memory=1Gi",
            [1.0] * 3,
            [],
            f"{TAKES} 3 whose memory is known, none has it",
        ),
        ("cores=4|gpus=1", [1.0] * 9, [], "of a choice, and of several nodes, it is not known what each took"),
        ("gpus=1", [], [], "they asked for neither cores nor memory"),
        ("\0", [], [], "what they asked for is not known"),
    ],
)
def test_why_nothing_is_suggested_is_told(asked, busy, peaks, why):
    assert why_unsuggested(asked, busy, peaks) == why


def test_after_an_end_for_lack_of_memory_more_than_that_is_suggested():
    assert suggested_request("memory=8Gi", [], [8 * GI], out_of_memory=True) == str(parse("memory=10Gi"))
    assert suggested_request("memory=100Mi", [], [], out_of_memory=True) == str(parse("memory=200Mi"))
    assert suggested_request("memory=100Mi", [], [GI] * 3, out_of_memory=True) == str(parse("memory=1280Mi"))
    assert suggested_request("cores=1", [], [], out_of_memory=True) is None, "none was asked for"


def test_sizes_are_rounded_up_to_such_as_people_write():
    sizes = [0, 1, 50 * MI, 51 * MI, GI - 1, GI, GI + 1, 4 * GI, 4 * GI + 1, 16 * GI, 16 * GI + 1]
    rounded = [0, 50, 50, 100, 1024, 1024, 1280, 4096, 4608, 16384, 17408]
    assert [readable_bytes(size) // MI for size in sizes] == rounded


def test_percentiles_are_values_that_were_there():
    assert [percentile([1, 2, 3], part) for part in (0.0, 0.3, 0.5, 0.95, 1.0)] == [1, 1, 2, 3, 3]


def test_usage_is_told_by_function_and_request_the_longest_first():
    jobs = [ended(ran=float(n), cpu=2.0 * n, peak=n * MI) for n in range(1, 21)]
    jobs += [ended("load", request="cores=1", ran=0.05, peak=0), ended("fit", request="cores=2", ran=500.0)]
    jobs += [ended(outcome="cancelled", ran=1e6, peak=9 * GI), ended(outcome="skipped", ran=None)]
    wide, fit, load = usage_by_function(jobs)
    assert [(row.name, row.asked) for row in (wide, fit, load)] == [
        ("fit", "cores=2"),
        ("fit", "cores=4"),
        ("load", "cores=1"),
    ]
    assert fit.outcomes == {"succeeded": 20, "cancelled": 1, "skipped": 1}
    assert (fit.ran, fit.cpu_s, fit.cores) == (20, 420.0, UsageSpread(2.0, 2.0, 2.0))
    assert (fit.ran_s, fit.memory) == (UsageSpread(10.0, 19.0, 20.0), UsageSpread(10 * MI, 19 * MI, 20 * MI))
    assert (fit.suggested, fit.unsuggested) == ("cores=2", "")
    assert load.unsuggested.startswith("too little evidence")
    assert (load.ran, load.cores, load.memory, load.suggested) == (1, None, None, None)
    assert usage_by_function([]) == []


def test_the_memory_of_a_process_that_coroutines_share_is_no_evidence():
    [usage] = usage_by_function([ended(coroutine=True) for _ in range(5)])
    assert (usage.memory, usage.suggested) == (None, "cores=1")


@pytest.mark.parametrize("error", ["JobMemoryError: much", "MemoryError", "grainlike.errors.JobMemoryError: x"])
def test_ends_for_lack_of_memory_are_recognized(error):
    jobs = [ended(request="memory=1Gi", peak=500 * MI) for _ in range(3)]
    bad = {"request": "memory=1Gi", "outcome": "failed", "peak": 500 * MI}
    [usage] = usage_by_function([*jobs, ended(**bad, error=error)])
    assert usage.suggested == str(parse("memory=1280Mi"))
    [usage] = usage_by_function([*jobs, ended(**bad, error="ValueError: MemoryError")])
    assert usage.suggested == str(parse("memory=600Mi"))


def test_cores_are_unknown_of_a_job_whose_cpu_time_nobody_could_tell():
    [usage] = usage_by_function([ended(cpu=0.0), ended(cpu=5.0)])
    assert usage.cores == UsageSpread(0.5, 0.5, 0.5)
