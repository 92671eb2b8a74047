"""What the jobs of a run held at most, told from reports by hand."""

from grainlike import Allocation, Cores, GPUs, Memory
from grainlike.dag._occupancy import Occupancy
from grainlike.resources import as_allocation


def occupancy() -> Occupancy:
    slots = Occupancy()
    slots.offer(1, as_allocation(Cores([0, 1, 2, 3]) & Memory("8G")))
    return slots


def test_leases_at_one_time_add_up_and_the_peak_stays() -> None:
    slots = occupancy()
    slots.take((1, 1), as_allocation(Cores([0]) & Memory("2G")), ())
    slots.take((1, 2), as_allocation(Cores([1, 2])), ())
    slots.give((1, 1))
    slots.give((1, 2))
    slots.take((1, 3), as_allocation(Cores([3])), ())
    assert slots.peaks() == {"cores": 0.75, "memory": 0.25}


def test_who_gets_a_core_came_after_who_had_it() -> None:
    slots = occupancy()
    slots.take((1, 1), as_allocation(Cores([0]) & Memory("6G")), ())
    slots.take((1, 2), as_allocation(Cores([0]) & Memory("6G")), ended={1, 2})
    slots.take((1, 3), as_allocation(Cores([0]) & Memory("6G")), ended={1, 2})
    for lease in (1, 2, 3):
        slots.give((1, lease))
    assert slots.peaks() == {"cores": 0.25, "memory": 0.75}


def test_one_that_ended_elsewhere_may_have_run_at_the_same_time() -> None:
    slots = occupancy()
    slots.take((1, 1), as_allocation(Cores([0])), ())
    slots.take((1, 2), as_allocation(Cores([1])), ended={1})
    assert slots.peaks()["cores"] == 0.5


def test_shares_of_one_device_are_held_side_by_side() -> None:
    slots = Occupancy()
    slots.offer(1, as_allocation(GPUs([0])))
    half = Allocation({"gpus": 0.5}, {"gpus": (0,)})
    slots.take((1, 1), half, ())
    slots.take((1, 2), half, ended={1})
    assert slots.peaks() == {"gpus": 1.0}


def test_a_worker_that_is_gone_takes_its_leases_along_and_others_count_for_more() -> None:
    slots = occupancy()
    slots.offer(2, as_allocation(Cores([0, 1, 2, 3])))
    slots.take((1, 1), as_allocation(Cores([0, 1])), ())
    assert slots.peaks()["cores"] == 0.25
    slots.offer(1, None)
    slots.give((1, 1))
    slots.take((2, 1), as_allocation(Cores([0])), ())
    assert slots.peaks() == {"cores": 0.25, "memory": 0.0}
    slots.take((2, 2), as_allocation(Cores([1])), ())
    assert slots.peaks()["cores"] == 0.5


def test_foreign_leases_are_passed_over() -> None:
    slots = occupancy()
    slots.give((1, 99))
    assert slots.peaks() == {"cores": 0.0, "memory": 0.0}
