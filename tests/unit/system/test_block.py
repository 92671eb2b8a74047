"""Block of a worker: its label, and the number of the node in it."""

import pytest

from grainlike.system import block_label, node_rank


def test_a_block_is_what_its_launcher_says() -> None:
    assert block_label({"GRAINLIKE_BLOCK": "cpu-7\n"}) == "cpu-7"
    assert block_label({"SLURM_JOB_ID": "7"}) == ""


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({}, 0),
        ({"SLURM_PROCID": "3", "PMI_RANK": "5"}, 3),
        ({"PBS_NODENUM": "2"}, 2),
        ({"OMPI_COMM_WORLD_RANK": "4"}, 4),
        ({"JOB_COMPLETION_INDEX": "1"}, 1),
        ({"GRAINLIKE_NODE": "6", "SLURM_PROCID": "3"}, 6),
        ({"SLURM_PROCID": "none", "PMI_RANK": "5"}, 5),
        ({"SLURM_PROCID": "-1"}, 0),
    ],
)
def test_the_number_of_a_node_comes_from_what_started_its_worker(environment: dict[str, str], rank: int) -> None:
    assert node_rank(environment) == rank
