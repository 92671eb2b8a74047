"""The environment of a job's programs: its slots, and what MPI launchers read."""

import pytest

from grainlike.resources import keep_in_job, keep_unbound, parse_allocation, program_environment, spread_over_nodes

LISTS = ("OMPI_MCA_hwloc_base_cpu_list", "PRTE_MCA_hwloc_default_cpu_list")
BINDINGS = ("OMPI_MCA_hwloc_base_binding_policy", "PRTE_MCA_hwloc_default_binding_policy")


def test_the_slots_are_named() -> None:
    shown = program_environment(parse_allocation("cores=[3,5] gpus=[1] memory=2Ki"), [3, 5])
    assert shown["GRAINLIKE_CORES"] == "3,5"
    assert shown["GRAINLIKE_GPUS"] == "1"
    assert shown["GRAINLIKE_MEMORY"] == "2048"
    assert shown["OMP_NUM_THREADS"] == "2"
    assert shown["OMP_PLACES"] == "{3},{5}"


def test_without_devices_or_memory_nothing_is_claimed() -> None:
    shown = program_environment(parse_allocation("cores=[3]"), [3])
    assert (shown["GRAINLIKE_GPUS"], shown["GRAINLIKE_MEMORY"]) == ("", None)


@pytest.mark.parametrize("name", LISTS)
def test_launchers_are_given_the_cores(name: str) -> None:
    assert program_environment(parse_allocation("cores=[3,5]"), {5, 3})[name] == "3,5"


@pytest.mark.parametrize("name", LISTS)
def test_cores_that_the_machine_does_not_have_are_given_to_no_launcher(name: str) -> None:
    shown = program_environment(parse_allocation("cores=[1,90]"), [1])
    assert (shown[name], shown["GRAINLIKE_CORES"], shown["OMP_PLACES"]) == ("1", "1,90", "{1}")
    shown = program_environment(parse_allocation("cores=[90]"), [])
    assert (shown[name], shown["OMP_PLACES"]) == (None, None)


def test_where_launchers_count_otherwise_they_do_not_bind() -> None:
    shown = program_environment(parse_allocation("cores=[3]"), [3], counted_in_order=False)
    assert [shown[name] for name in BINDINGS] == ["none", "none"]
    assert not set(LISTS) & set(shown)


def test_a_list_of_cores_does_not_travel_to_other_nodes() -> None:
    environment = {"PATH": "/bin", LISTS[0]: "3"}
    spread_over_nodes(environment)
    assert environment == {"PATH": "/bin", **dict.fromkeys(BINDINGS, "none")}


def test_no_thread_is_bound_unless_somebody_chose_so() -> None:
    chosen, fresh = {"OMP_PROC_BIND": "close"}, {}
    keep_unbound(chosen)
    keep_unbound(fresh)
    assert (chosen, fresh) == ({"OMP_PROC_BIND": "close"}, {"OMP_PROC_BIND": "false"})


@pytest.mark.parametrize("name", ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE"])
def test_in_a_batch_job_launchers_leave_the_batch_system_alone_unless_somebody_chose_so(name: str) -> None:
    environment = {name: "7", "OMPI_MCA_plm": "slurm"}
    keep_in_job(environment)
    assert environment["OMPI_MCA_plm"] == "slurm"
    assert environment["PRTE_MCA_plm"] == "^slurm,tm,lsf"
    assert environment["OMPI_MCA_ras"] == environment["PRTE_MCA_ras"] == "^slurm,tm,lsf,gridengine"


def test_outside_of_batch_jobs_launchers_are_told_nothing_of_them() -> None:
    environment = {"PATH": "/bin"}
    keep_in_job(environment)
    assert environment == {"PATH": "/bin"}
