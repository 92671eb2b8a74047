"""Worker in a batch job: it offers what the job was granted, never the whole node."""

import os
import socket
from pathlib import Path

import pytest
from limits import LIMIT_S

from grainlike.resources import parse
from grainlike_worker.__main__ import _own_name
from grainlike_worker.daemon import _probe
from grainlike_worker.daemon._introduction import introduction
from grainlike_worker.daemon._probe import logical_in, offer_of_daemon

JOB = {
    "SLURM_JOB_ID": "7",
    "SLURM_CPUS_PER_TASK": "1",
    "SLURM_CPUS_ON_NODE": "1",
    "SLURM_MEM_PER_NODE": "500",
    "SLURM_JOB_GPUS": "3",
    "CUDA_VISIBLE_DEVICES": "3",
}


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A Slurm job whose `squeue` is a program that says how long is left."""
    for name, value in JOB.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SLURM_JOB_END_TIME", raising=False)
    monkeypatch.setattr(_probe, "cpu_limit", lambda: None)
    monkeypatch.setattr(_probe, "ASK_S", LIMIT_S)  # a busy machine may take longer to start it
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\necho 5:00\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return squeue


@pytest.mark.usefixtures("job")
def test_a_worker_offers_what_its_batch_job_was_granted() -> None:
    offer = offer_of_daemon(None)
    assert len(offer.cores) == 1
    assert offer.memory <= 500 * 2**20
    assert len(offer.gpus) == 1
    assert offer.walltime == 240  # a margin before the five minutes are over


@pytest.mark.usefixtures("job")
def test_cores_are_counted_where_nobody_says_which(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    offer = offer_of_daemon(None)
    assert logical_in(offer) == offer.cores == (32768,)  # as docs/launching/local.md says
    assert "Slurm job 7 has 1 cores, and may run on 4: they are counted, never pinned" in caplog.text


@pytest.mark.usefixtures("job")
def test_cores_are_pinned_where_the_affinity_is_the_grant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {6})
    assert offer_of_daemon(None).cores == (6,)


def test_a_batch_system_that_does_not_answer_is_named(job: Path, caplog: pytest.LogCaptureFixture) -> None:
    job.write_text("#!/bin/sh\nexit 1\n")
    assert offer_of_daemon(None).walltime is None
    assert "Slurm job 7: squeue does not say what was granted" in caplog.text


@pytest.mark.usefixtures("job")
def test_an_end_that_is_no_whole_second_from_now_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_END_TIME", "1300")
    monkeypatch.setattr(_probe.time, "time", lambda: 1000.184031677246093)
    assert offer_of_daemon(None).walltime == 239


def test_a_worker_of_a_block_says_which_and_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAINLIKE_BLOCK", "cpu-7")
    monkeypatch.setenv("SLURM_PROCID", "2")
    monkeypatch.setattr(socket, "gethostname", lambda: "node3")
    told = introduction(_own_name(), offer_of_daemon(parse("cores=1")))
    assert (told.name, told.block, told.node, told.host) == ("cpu-7.2", "cpu-7", 2, "node3")


def test_a_worker_outside_of_blocks_is_called_after_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAINLIKE_BLOCK", raising=False)
    told = introduction(_own_name(), offer_of_daemon(parse("cores=1")))
    assert (told.name, told.block, told.host) == (socket.gethostname(), "", socket.gethostname())
