"""What a batch job was granted, from the answers of several systems and versions in `samples`."""

from pathlib import Path

import pytest

from grainlike.system import BatchJob, batch_job

SAMPLES = Path(__file__).parent / "samples"
GI = 2**30


@pytest.mark.parametrize(
    ("sample", "job", "host", "memory", "left"),
    [
        ("pbs-openpbs-23.06.txt", BatchJob("PBS", "201"), "n1.cluster.org", 32 * GI, 10800.0),
        ("pbs-openpbs-23.06.txt", BatchJob("PBS", "201"), "n2", 16 * GI, 10800.0),
        ("pbs-torque-6.1.txt", BatchJob("PBS", "31"), "n2", 32 * GI, 13800.0),
        ("lsf-bjobs-10.1-limits.txt", BatchJob("LSF", "7"), "n1", 60 * GI, 11640.0),
        ("lsf-bjobs-10.1-none.txt", BatchJob("LSF", "7"), "n1", None, None),
        ("sge-grant-8.1.9.txt", BatchJob("Grid Engine", "1", 6), "g1", 4 * GI, 46.0),
        ("sge-grant-8.1.9-task.txt", BatchJob("Grid Engine", "2.2", 1), "g1", None, 49.0),
        ("slurm-squeue-23.11.txt", BatchJob("Slurm", "7"), "n1", None, 100770.0),
        ("slurm-squeue-23.11-invalid.txt", BatchJob("Slurm", "7"), "n1", None, None),
    ],
)
def test_an_answer_is_understood(sample: str, job: BatchJob, host: str, memory: int | None, left: float | None) -> None:
    told = job.told((SAMPLES / sample).read_text(), host)
    assert (told.memory, told.left_s) == (memory, left)


@pytest.mark.parametrize(
    "environment",
    [
        {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "2,3"},
        {"SLURM_JOB_ID": "7", "SLURM_STEP_GPUS": "2,3"},
        {"PBS_JOBID": "7.s", "PBS_GPUFILE": "/var/spool/pbs/aux/7.sgpu"},
        {"LSB_JOBID": "7", "LSB_GPU_REQ": "num=2:mode=shared"},
        {"JOB_ID": "7", "SGE_ROOT": "/s", "SGE_HGR_gpu": "GPU0 GPU1"},
    ],
)
def test_devices_count_where_the_system_says_that_they_were_granted(environment: dict[str, str]) -> None:
    """A mask alone may be the site's, or the user's."""
    mask = {"CUDA_VISIBLE_DEVICES": "0,1"}
    found = batch_job(environment | mask, "n1", 0.0)
    assert found is not None
    assert found.gpus == 2
    unmarked = {name: value for name, value in environment.items() if "GPU" not in name and "HGR" not in name}
    plain = batch_job(unmarked | mask, "n1", 0.0)
    assert plain is not None
    assert plain.gpus == 0
