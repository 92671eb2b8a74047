"""Values that jobs need and give, on their way through the node's scheduler: it passes them on, and decides nothing."""

from collections.abc import Sequence

from msgspec.structs import replace

from grainlike.resources import Cores, offer_of
from grainlike.scheduler import NodeAction, NodeScheduler, RunnerCompleted, StartLease, TellCompleted
from grainlike.wire import Assign, Cancel, ClassSpec, Code, Completed, Define, FunctionSpec, Need

NEED = Need(3, 1, 100_000)


def node() -> NodeScheduler:
    scheduler = NodeScheduler(offer_of(Cores(1), own_cores=range(1)))
    scheduler.handle(Define([FunctionSpec(1, b"", "f", False, None)], [ClassSpec(1, "cores=1", False)]), 0.0)
    return scheduler


def assigned(scheduler: NodeScheduler, *jobs: int, needs: list[list[Need]] | None = None) -> list[NodeAction]:
    count = len(jobs)
    ones = [1] * count
    return scheduler.handle(Assign(1, False, list(jobs), ones, ones, [b""] * count, [], needs=needs or []), 0.0)


def started(actions: Sequence[NodeAction]) -> StartLease:
    [start] = [action for action in actions if isinstance(action, StartLease)]
    return start


def completed(start: StartLease, code: Code, size: int = 0) -> RunnerCompleted:
    times = [0.0], [0.1], [0.1], [1]
    told = Completed(start.lease, start.jobs, start.attempts, [int(code)], *times, [b""], [], 1.0, sizes=[size])
    return RunnerCompleted(start.runner, told)


def told(actions: Sequence[NodeAction]) -> Completed:
    [one] = [action.completed for action in actions if isinstance(action, TellCompleted)]
    return one


def test_a_lease_says_what_its_job_needs_and_others_say_nothing() -> None:
    scheduler = node()
    first = started(assigned(scheduler, 1, 2, needs=[[NEED], []]))
    assert (first.jobs, first.needs) == ([1], [[NEED]])
    second = started(scheduler.handle(completed(first, Code.SUCCEEDED), 1.0))
    assert (second.jobs, second.needs) == ([2], [])
    assert scheduler._needs == {}


def test_a_job_without_its_input_is_told_and_forgotten() -> None:
    scheduler = node()
    first = started(assigned(scheduler, 1, needs=[[NEED]]))
    ended = completed(first, Code.INPUT_GONE)
    report = told(scheduler.handle(replace(ended, completed=replace(ended.completed, gone=[3])), 1.0))
    assert (report.jobs, report.attempts, report.codes, report.gone) == ([1], [1], [Code.INPUT_GONE], [3])
    assert scheduler.idle
    assert scheduler._needs == {}
    assert started(assigned(scheduler, 1, needs=[[NEED]])).needs == [[NEED]]


def test_a_size_is_told_with_its_row() -> None:
    scheduler = node()
    first = started(assigned(scheduler, 1))
    assert told(scheduler.handle(completed(first, Code.SUCCEEDED, 70_000), 1.0)).sizes == [70_000]


def test_what_a_cancelled_job_needs_is_forgotten() -> None:
    scheduler = node()
    assigned(scheduler, 1, 2, needs=[[NEED], [NEED]])
    scheduler.handle(Cancel([2], [1]), 1.0)
    assert list(scheduler._needs) == [1]
