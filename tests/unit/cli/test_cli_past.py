"""Words of the command line about jobs that have ended."""

import pytest

from grainlike.cli._past import _ended_row, ended_words
from grainlike.wire import EndedJob, ReceiptRow


def ended(cpu_s=0.0, slots="cores=[1]", **more):
    return EndedJob(7, "solve", "succeeded", "", "n1", "cores=1", slots, 1, 2, "", 0, 0.1, 2.0, cpu_s, 0, 1e9, **more)


@pytest.mark.parametrize(("cpu_s", "shown"), [(0.0, "-"), (0.0004, "0.4 ms"), (1.5, "1.5 s")])
def test_cpu_time_that_was_not_measured_is_not_shown_as_none(cpu_s, shown):
    assert _ended_row(ended(cpu_s))[6] == shown
    assert f"CPU {shown}" in "\n".join(ended_words(ended(cpu_s)))


@pytest.mark.parametrize(
    ("coroutine", "slots", "more"),
    [(True, "cores=[1]", "; programs that it starts: cores=[1]"), (False, "cores=[1]", ""), (True, "gpu0=1", "")],
)
def test_of_a_coroutine_the_cores_of_its_programs_are_told_beside_those_of_its_process(coroutine, slots, more):
    job = ended(slots=slots, coroutine=coroutine, receipt=ReceiptRow([0, 1], {}, [], "none"))
    assert f"  enforced: cores 0,1; no limit of memory{more}" in list(ended_words(job))
