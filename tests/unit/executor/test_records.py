"""Facts of a placeholder: each has one default, and what a worker told goes through messages in columns, unchanged."""

from __future__ import annotations

from dataclasses import fields

import pytest

from grainlike import delayed, info
from grainlike.cache._result_cache import CachedRecord
from grainlike.dag._partitioned_run import StepRecord
from grainlike.engine import LocalCall
from grainlike.graph import Info, Record, node_of
from grainlike.head._recorder import OperatorRecord
from grainlike.jobs import NO_PARCEL, Job, Placement, outcome_alone, outcomes_message
from grainlike.jobs._submission import placement_in
from grainlike.wire import Outcomes, Parcel, ReceiptSpec, unpack_parcels

FACTS = [field.name for field in fields(Info) if field.name not in ("name", "state", "error")]
RECEIPT = ReceiptSpec(pid=1, affinity=[3], threads={"blas": 1}, devices=[], memory_tier="none")


def ran(number: int) -> Job:
    job = Job(number, 0, None, NO_PARCEL)
    used = (2.0, 1.5, 4096)
    job.placement = Placement("n1", 2, slots="cores=[3]", began=8.0, ended=10.0, used=used, receipt=RECEIPT)
    return job


@pytest.mark.parametrize("kind", [Job, LocalCall, OperatorRecord, CachedRecord, StepRecord])
def test_every_record_has_every_fact(kind: type[Record]) -> None:
    assert issubclass(kind, Record)
    for fact in FACTS:
        assert hasattr(kind, fact)


def test_the_number_of_a_job_is_told_in_info_and_in_notes_once_it_is_known() -> None:
    r_ = delayed(abs)(-1)
    assert info(r_).job == 0
    node_of(r_).record = job = ran(7)
    assert info(r_).job == 7
    assert job.note("abs") == "grainlike: job 7, on worker n1, slots cores=[3], attempt 2 of abs"
    assert ran(0).note("abs") == "grainlike: on worker n1, slots cores=[3], attempt 2 of abs"


@pytest.mark.parametrize("fact", FACTS)
def test_a_fact_that_a_record_knows_is_in_info(fact: str, monkeypatch: pytest.MonkeyPatch) -> None:
    r_ = delayed(abs)(-1)
    node_of(r_).record = Record()
    assert getattr(info(r_), fact) == getattr(Info("abs", "lazy"), fact)
    monkeypatch.setattr(Record, fact, "known")
    assert getattr(info(r_), fact) == "known"


def test_what_is_known_of_jobs_goes_through_columns_and_comes_back() -> None:
    waiting = Job(8, 0, None, NO_PARCEL)
    parcels: list[Parcel] = [(b"value", ()), (b"error", (b"buffer",))]
    rows = [(1, ran(7), True, parcels[0]), (2, waiting, False, parcels[1])]
    message, buffers = outcomes_message(5, 6, rows)
    assert (message.parent, message.attempt, message.children, message.good) == (5, 6, [1, 2], [True, False])
    assert placement_in(message, 0, 10.0) is not None
    assert_same(placement_in(message, 0, 10.0), ran(7).placement)
    assert placement_in(message, 1, 10.0) is None
    assert [parcel[0] for parcel in unpack_parcels(message.data, message.counts, buffers)] == [b"value", b"error"]


def test_one_row_alone_says_what_it_said_among_others() -> None:
    rows = [(number, ran(number), bool(number), (b"%d" % number, ())) for number in range(3)]
    message, _ = outcomes_message(0, 0, rows)
    for row in range(3):
        alone, buffers = outcome_alone(message, row, (b"%d" % row, ()))
        expected, _ = outcomes_message(0, 0, rows[row : row + 1])
        for column in Outcomes.__struct_fields__:
            assert getattr(alone, column) == getattr(expected, column)
        assert not buffers


def assert_same(found: Placement | None, expected: Placement | None) -> None:
    for name in Placement.__struct_fields__:
        assert getattr(found, name) == getattr(expected, name)
