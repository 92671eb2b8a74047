"""What a batch job was granted, from its environment and from what its system answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grainlike.system import BatchJob, batch_job
from grainlike.system._batch_job import _GRANT

MI, GI = 2**20, 2**30

SLURM = {"SLURM_JOB_ID": "7", "SLURM_CPUS_ON_NODE": "4"}
ENDS = {"SLURM_JOB_END_TIME": "1300"}
PBS_AMOUNTS = """Job Id: 7
    Resource_List.mem = 8gb
    Resource_List.nodect = 2
    Resource_List.walltime = 01:00:00
    resources_used.walltime = 00:10:00
"""
PBS_CHUNKS = """Job Id: 7
    Resource_List.mem = 8gb
    exec_vnode = (n1:ncpus=2:mem=2097152kb)+(n2:ncpus=2:m
\tem=6gb)
"""
LEFT = ("squeue", "-h", "-j", "7", "-o", "%L")


def hard(name: str, value: str) -> str:
    """Return how `qstat -j -xml` shows a request."""
    pair = f"<CE_name>{name}</CE_name>\n<CE_valtype>3</CE_valtype>\n<CE_stringval>{value}</CE_stringval>"
    return f"<JB_hard_resource_list>\n{pair}\n</JB_hard_resource_list>\n"


def began(when: int) -> str:
    """Return how it shows the start of a job."""
    return f"<JAT_task_number>1</JAT_task_number>\n<JAT_start_time>{when}</JAT_start_time>\n"


@pytest.mark.parametrize(
    ("environment", "job"),
    [
        (SLURM | ENDS, BatchJob("Slurm", "7", 4, left_s=300.0)),
        (SLURM | ENDS | {"SLURM_CPUS_PER_TASK": "1"}, BatchJob("Slurm", "7", 1, left_s=300.0)),
        (SLURM | ENDS | {"SLURM_MEM_PER_NODE": "500"}, BatchJob("Slurm", "7", 4, 500 * MI, left_s=300.0)),
        (SLURM | ENDS | {"SLURM_MEM_PER_CPU": "500"}, BatchJob("Slurm", "7", 4, 2000 * MI, left_s=300.0)),
        (SLURM | ENDS | {"SLURM_MEM_PER_NODE": "0"}, BatchJob("Slurm", "7", 4, left_s=300.0)),
        (SLURM | ENDS | {"CUDA_VISIBLE_DEVICES": "0,1"}, BatchJob("Slurm", "7", 4, left_s=300.0)),
        (
            SLURM | ENDS | {"CUDA_VISIBLE_DEVICES": "0", "SLURM_JOB_GPUS": "5"},
            BatchJob("Slurm", "7", 4, gpus=1, left_s=300.0),
        ),
        (SLURM, BatchJob("Slurm", "7", 4, question=LEFT)),
        ({"PBS_JOBID": "7.s", "NCPUS": "3"}, BatchJob("PBS", "7.s", 3, question=("qstat", "-f", "7.s"))),
        (
            {"JOB_ID": "7", "SGE_ROOT": "/s", "NSLOTS": "2"},
            BatchJob("Grid Engine", "7", 2, question=("sh", "-c", _GRANT)),
        ),
        (
            {"JOB_ID": "7", "SGE_ROOT": "/s", "NSLOTS": "2", "SGE_TASK_ID": "3"},
            BatchJob("Grid Engine", "7.3", 2, question=("sh", "-c", _GRANT)),
        ),
        (
            {"JOB_ID": "7", "SGE_ROOT": "/s", "NSLOTS": "2", "SGE_TASK_ID": "undefined"},
            BatchJob("Grid Engine", "7", 2, question=("sh", "-c", _GRANT)),
        ),
        ({"JOB_ID": "7", "NSLOTS": "2"}, None),
        ({}, None),
    ],
)
def test_an_environment_says_what_was_granted(environment: dict[str, str], job: BatchJob | None) -> None:
    assert batch_job(environment, "n1", 1000.0) == job


def test_slots_of_lsf_are_those_of_this_host() -> None:
    environment = {"LSB_JOBID": "7", "LSB_MCPU_HOSTS": "n1.site 4 n2.site 2", "LSB_DJOB_NUMPROC": "6"}
    jobs = [batch_job(environment, host, 0.0) for host in ("n1", "n2.site", "n3")]
    assert [job.cores for job in jobs if job is not None] == [4, 2, 6]


def test_slots_of_grid_engine_are_those_of_this_host() -> None:
    job = BatchJob("Grid Engine", "7", 6)
    hosts = "slots on n1.site 4 all.q@n1.site UNDEFINED\nslots on n2.site 2 all.q@n2.site UNDEFINED\n"
    assert [job.told(hosts, host).cores for host in ("n1", "n2.site", "n3")] == [4, 2, 6]
    assert job.told(f"host_slots=3\n{hosts}", "n1").cores == 3
    assert job.told("", "n1").cores == 6


@pytest.mark.parametrize(
    ("job", "text", "memory", "left"),
    [
        (BatchJob("Slurm", "7"), "4:59\n", None, 299.0),
        (BatchJob("Slurm", "7"), "1-02:03:04\n", None, 93784.0),
        (BatchJob("Slurm", "7"), "UNLIMITED\n", None, None),
        (
            BatchJob("PBS", "7"),
            PBS_AMOUNTS,
            4 * GI,
            3000.0,
        ),
        (
            BatchJob("PBS", "7"),
            PBS_CHUNKS,
            2 * GI,
            None,
        ),
        (BatchJob("LSF", "7"), "1:30 L|4 G\n", 4 * GI, 5400.0),
        (BatchJob("LSF", "7"), "-|-\n", None, None),
        (BatchJob("Grid Engine", "7", 2), "h_vmem=1G\nh_rt   0:10:00\n", 2 * GI, 600.0),
        (BatchJob("Grid Engine", "7", 2), "h_vmem=1G\nh_vmem_is_consumable_job=1\n", GI, None),
        (BatchJob("Grid Engine", "7", 2), "h_vmem=INFINITY\nh_rt   INFINITY\n", None, None),
        (BatchJob("Grid Engine", "7", 2), "h_rt   0:10:00,[n2=0:20:00],[n1.site=0:30:00]\n", None, 1800.0),
        (BatchJob("Grid Engine", "7", 2), f"now=1700000100\n{hard('h_rt', '0:10:00')}{began(1700000000)}", None, 500.0),
        (BatchJob("Grid Engine", "7", 2), f"now=1700000100\n{hard('h_rt', '600')}{began(1700000000000)}", None, 500.0),
        (BatchJob("Grid Engine", "7", 2), f"now=1700000999\n{hard('h_rt', '600')}{began(1700000000)}", None, 0.0),
        (BatchJob("Grid Engine", "7.2", 2), f"now=1700000100\n{hard('h_rt', '600')}{began(1700000000)}", None, 600.0),
        (BatchJob("Grid Engine", "7", 2), f"h_rt  0:5:0\n{hard('h_vmem', '2G')}", 4 * GI, 300.0),
    ],
)
def test_an_answer_says_what_the_environment_left_open(
    job: BatchJob, text: str, memory: int | None, left: float | None
) -> None:
    told = job.told(text, "n1")
    assert (told.memory, told.left_s, told.question) == (memory, left, ())


PBS_GPUS = """Job Id: 7
    exec_vnode = (n1:ncpus=2:ngpus=1)+(n2:ncpus=2:ngpus=2)
"""


@pytest.mark.parametrize(
    ("host", "mask", "gpus"), [("n1", "3", 1), ("n2.site", "0,1", 2), ("n1", "", 0), ("n1", "0,1", 1)]
)
def test_gpus_of_openpbs_are_those_granted_here_which_are_seen(host: str, mask: str, gpus: int) -> None:
    job = batch_job({"PBS_JOBID": "7", "NCPUS": "2", "CUDA_VISIBLE_DEVICES": mask}, host, 0.0)
    assert job is not None
    assert job.gpus == 0, "before it was asked"
    assert job.told(PBS_GPUS, host).gpus == gpus


@pytest.mark.parametrize(
    ("place", "cores", "memory"),
    [("scatter:exclhost", None, None), ("free", 1, 2 * GI), ("excl", 1, 2 * GI)],
)
def test_a_job_that_has_its_host_alone_has_all_its_cores(place: str, cores: int | None, memory: int | None) -> None:
    job = batch_job({"PBS_JOBID": "7", "NCPUS": "1"}, "n1", 0.0)
    assert job is not None
    told = job.told(f"    Resource_List.place = {place}\n    exec_vnode = (n1:ncpus=1:mem=2gb)\n", "n1")
    assert (told.cores, told.memory) == (cores, memory)


def test_lsf_may_write_minutes_with_one_digit() -> None:
    assert BatchJob("LSF", "7").told("1:5 L|-", "n1").left_s == 3900.0


NAMES = st.sampled_from(
    [
        "SLURM_JOB_ID",
        "SLURM_CPUS_PER_TASK",
        "SLURM_CPUS_ON_NODE",
        "SLURM_MEM_PER_NODE",
        "SLURM_MEM_PER_CPU",
        "SLURM_JOB_END_TIME",
        "SLURM_JOB_GPUS",
        "CUDA_VISIBLE_DEVICES",
        "PBS_JOBID",
        "NCPUS",
        "LSB_JOBID",
        "LSB_MCPU_HOSTS",
        "JOB_ID",
        "SGE_ROOT",
        "NSLOTS",
    ]
)


@given(st.dictionaries(NAMES, st.text() | st.integers(0, 99).map(str)), st.text())
def test_no_text_raises(environment: dict[str, str], answer: str) -> None:
    job = batch_job(environment, "n1", 0.0)
    if job is not None:
        told = job.told(answer, "n1")
        assert told.memory is None or told.memory >= 0
        assert told.left_s is None or told.left_s >= 0
