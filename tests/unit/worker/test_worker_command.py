"""What `grainlike worker start` says before it looks for a head."""

from pathlib import Path

import pytest

from grainlike.resources import Cores, Memory, offer_of
from grainlike_worker.__main__ import NO_HEAD, serve
from grainlike_worker.daemon import _probe
from grainlike_worker.daemon._probe import warn_of_logical, warn_of_memory


def test_a_slip_in_what_is_offered_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    offer = "core=2 cores=[0] gpu0=1 licence=1"
    assert serve(head=str(tmp_path / "none.json"), resources=offer, name="n1", log_level="info") == NO_HEAD
    assert [record.getMessage() for record in caplog.records] == [
        "--resources: only jobs that ask for core by this name get it; did you mean cores?"
    ]


def test_an_offer_that_no_head_would_read_is_refused_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    offer = f"cores={list(range(0, 40_000, 2))}"
    access = str(tmp_path / "none.json")
    assert serve(head=access, resources=offer, name="n1", log_level="error") == NO_HEAD
    said = capsys.readouterr().err
    assert "what worker n1 offers takes" in said
    assert "the ids of 20000 cores are too many one by one" in said


def test_thousands_of_cores_that_are_not_there_are_no_long_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_logical(offer_of(Cores(list(range(10_000, 18_000, 2))), own_cores=range(2)))
    (record,) = caplog.records
    assert "10038] and 3980 more are not of this machine" in record.getMessage()


def test_more_memory_than_the_machine_has_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_probe, "own_memory", lambda: 24 << 30)
    for size in ("24Gi", "25Gi"):
        warn_of_memory(offer_of(Cores(1) & Memory(size), own_cores=range(1)))
    (record,) = caplog.records
    words = "memory=25Gi is more than this machine lets a process have, memory=24Gi"
    assert record.getMessage() == f"{words}: given out and shown, but not there for jobs"
    caplog.clear()
    serve(head=str(tmp_path / "none.json"), resources="cores=[0] memory=1Ei", name="n1", log_level="info")
    assert "memory=1Ei is more than" in caplog.text
