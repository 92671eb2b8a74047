"""Which jobs share a lease, and how time limits are kept where some do."""

import pytest

from grainlike.resources import Cores, offer_of
from grainlike.scheduler import (
    AssignSized,
    BarrierHeld,
    NodeAction,
    NodeScheduler,
    RaiseBarrier,
    RunnerCompleted,
    RunnerGone,
    RunnerReady,
    StartApart,
    StartLease,
    TellCompleted,
    TerminateRunner,
    Ticked,
)
from grainlike.scheduler.node._records import APART_S, LISTED_LIMIT_S, RUN_LIST_BYTES, RUN_LIST_S
from grainlike.scheduler.node._scheduler import LONG_S, UNSEEN_S
from grainlike.wire import Assign, Cancel, ClassSpec, Code, Completed, Define, FunctionSpec

FREE, LIMITED, HURRIED, AWAITS, AWAITS_LIMITED = 1, 2, 3, 4, 5
SHARED, ISOLATED = 1, 2
LIMITS = {LIMITED: LISTED_LIMIT_S, HURRIED: LISTED_LIMIT_S / 2, AWAITS_LIMITED: LISTED_LIMIT_S}


@pytest.fixture
def scheduler() -> NodeScheduler:
    """A node of one core, on which a job runs behind which others wait, of functions that are known to be tiny."""
    scheduler = NodeScheduler(offer_of(Cores(1), own_cores=range(1)))
    functions = [
        FunctionSpec(fn, b"%d" % fn, f"f{fn}", fn in (AWAITS, AWAITS_LIMITED), LIMITS.get(fn))
        for fn in (FREE, LIMITED, HURRIED, AWAITS, AWAITS_LIMITED)
    ]
    classes = [ClassSpec(SHARED, "cores=1", isolate=False), ClassSpec(ISOLATED, "cores=1", isolate=True)]
    scheduler.handle(Define(functions, classes), 0.0)
    for fn in (FREE, LIMITED, HURRIED, AWAITS, AWAITS_LIMITED):
        for job in range(10):
            start = started(assign(scheduler, ISOLATED, fn, [1000 * fn + job]))
            complete(scheduler, start, start.jobs)
    started(assign(scheduler, SHARED, FREE, [1]))
    return scheduler


def assign(
    scheduler: NodeScheduler, cls: int, fn: int, jobs: list[int], *, attempt: int = 1, ahead: bool = False
) -> list[NodeAction]:
    count = len(jobs)
    return scheduler.handle(Assign(cls, ahead, jobs, [attempt] * count, [fn] * count, [b""] * count, [0] * count), 0.0)


def started(actions: list[NodeAction]) -> StartLease:
    return next(action for action in actions if isinstance(action, StartLease))


def complete(scheduler: NodeScheduler, start: StartLease, jobs: list[int], now: float = 0.0) -> list[NodeAction]:
    count = len(jobs)
    attempts, codes = [1] * count, [Code.SUCCEEDED] * count
    columns = [0.0] * count, [1e-6] * count, [0.0] * count, [0] * count, [b""] * count
    return scheduler.handle(
        RunnerCompleted(start.runner, Completed(start.lease, jobs, attempts, codes, *columns, [], 0.0)), now
    )


def next_lease(scheduler: NodeScheduler, cls: int, fn: int, jobs: int, *, attempt: int = 1) -> StartLease:
    """Send jobs ahead; return the lease that starts when the running one ends."""
    assert not assign(scheduler, cls, fn, list(range(2, 2 + jobs)), attempt=attempt, ahead=True)
    lease = StartLease(1, scheduler._last_lease, "", [1], [1], [FREE], [None], None)
    return started(complete(scheduler, lease, [1]))


@pytest.mark.parametrize(
    ("cls", "fn", "attempt", "jobs"),
    [
        pytest.param(SHARED, FREE, 1, 5, id="tiny"),
        pytest.param(SHARED, FREE, 2, 5, id="tried again"),
        pytest.param(SHARED, LIMITED, 1, 5, id="a limit"),
        pytest.param(SHARED, HURRIED, 1, 1, id="a limit that may be over before a barrier stands"),
        pytest.param(SHARED, AWAITS, 1, 5, id="coroutines"),
        pytest.param(SHARED, AWAITS_LIMITED, 1, 1, id="coroutines with a limit"),
        pytest.param(ISOLATED, FREE, 1, 5, id="isolated"),
        pytest.param(ISOLATED, LIMITED, 1, 5, id="isolated, with a limit"),
        pytest.param(ISOLATED, FREE, 2, 1, id="isolated and tried again: it may have ended a process"),
        pytest.param(ISOLATED, AWAITS, 1, 1, id="isolated coroutines"),
    ],
)
def test_which_jobs_share_a_lease(scheduler: NodeScheduler, cls: int, fn: int, attempt: int, jobs: int) -> None:
    start = next_lease(scheduler, cls, fn, 5, attempt=attempt)
    assert len(start.jobs) == jobs
    assert start.limit == LIMITS.get(fn)
    assert isinstance(start, StartApart) == (cls == ISOLATED and jobs > 1)


def test_of_jobs_that_are_kept_apart_fewer_share_one(scheduler: NodeScheduler) -> None:
    assert len(next_lease(scheduler, ISOLATED, FREE, 100).jobs) == int(RUN_LIST_S / APART_S)


def test_an_isolated_one_that_is_tried_again_does_not_join_others(scheduler: NodeScheduler) -> None:
    assert not assign(scheduler, ISOLATED, FREE, [900, 901], ahead=True)
    assert not assign(scheduler, ISOLATED, FREE, [902], attempt=2, ahead=True)
    assert next_lease(scheduler, ISOLATED, FREE, 1).jobs == [900, 901]


def limited(scheduler: NodeScheduler, *limits: float | None, cls: int = SHARED) -> StartLease:
    """Send jobs from 900 on ahead that may run for so long; return the lease that starts when the running one ends."""
    assert not assign_limited(scheduler, *limits, cls=cls)
    return started(complete_first(scheduler))


def assign_limited(
    scheduler: NodeScheduler, *limits: float | None, cls: int = SHARED, first: int = 900
) -> list[NodeAction]:
    messages = [Assign(cls, True, [job], [1], [FREE], [b""], [0], limit) for job, limit in enumerate(limits, first)]
    return [action for message in messages for action in scheduler.handle(message, 0.0)]


@pytest.mark.parametrize("cls", [SHARED, ISOLATED])
@pytest.mark.parametrize("limits", [(2.0, 3.0, 2.0), (3.0, None, 2.0), (None, 2.0)])
def test_those_that_may_run_for_different_times_share_one(
    scheduler: NodeScheduler, cls: int, limits: tuple[float | None, ...]
) -> None:
    start = limited(scheduler, *limits, cls=cls)
    assert start.jobs == list(range(900, 900 + len(limits)))
    assert start.limits == limits
    assert start.limit == 2.0, "the shortest"


@pytest.mark.parametrize("limit", [None, 2.0])
def test_where_all_have_the_same_limit_it_is_said_once(scheduler: NodeScheduler, limit: float | None) -> None:
    alone = limited(scheduler, 3.0)
    assert not assign_limited(scheduler, limit, limit, first=901)
    start = started(complete(scheduler, alone, [900]))
    assert (start.jobs, start.limit, start.limits) == ([901, 902], limit, ())


def test_one_whose_limit_may_be_over_before_a_barrier_stands_joins_none(scheduler: NodeScheduler) -> None:
    assert limited(scheduler, 2.0, LISTED_LIMIT_S / 2, 2.0).jobs == [900]


def test_nor_does_a_coroutine_with_a_limit_join_others(scheduler: NodeScheduler) -> None:
    assert not assign(scheduler, SHARED, AWAITS, [900, 901], ahead=True)
    assert not assign(scheduler, SHARED, AWAITS_LIMITED, [902], ahead=True)
    assert started(complete_first(scheduler)).jobs == [900, 901]


# --- limits -----------------------------------------------------------------------------------------------------------


def ended(actions: list[NodeAction]) -> bool:
    return any(isinstance(action, TerminateRunner) for action in actions)


def told(actions: list[NodeAction]) -> dict[int, Code]:
    """The ends that the head is told of."""
    ends = [action.completed for action in actions if isinstance(action, TellCompleted)]
    return {job: Code(code) for end in ends for job, code in zip(end.jobs, end.codes, strict=True)}


def test_the_time_of_the_one_that_runs_is_counted_from_the_barrier(scheduler: NodeScheduler) -> None:
    start = next_lease(scheduler, SHARED, LIMITED, 4)
    complete(scheduler, start, [2], 0.001)
    barred = scheduler.handle(Ticked(), LONG_S)
    assert RaiseBarrier(start.runner, start.lease) in barred
    stood = LONG_S + 0.002
    scheduler.handle(BarrierHeld(start.runner, start.lease, 1), stood)
    assert not ended(scheduler.handle(Ticked(), LISTED_LIMIT_S + LONG_S)), "it may have begun a moment before"
    assert ended(scheduler.handle(Ticked(), LISTED_LIMIT_S + stood))
    gone = scheduler.handle(RunnerGone(start.runner, "SIGTERM", 1, 0), LISTED_LIMIT_S + 1.0)
    assert told(gone) == {3: Code.TIMED_OUT}
    assert started(gone).jobs == [4, 5], "those behind it waited here"
    scheduler.check()


def test_or_from_when_it_began_if_that_is_known(scheduler: NodeScheduler) -> None:
    start = next_lease(scheduler, SHARED, LIMITED, 4)
    complete(scheduler, start, [2], 0.001)
    scheduler.handle(Ticked(), LONG_S)
    scheduler.handle(BarrierHeld(start.runner, start.lease, 1, ran_s=LONG_S + 0.001), LONG_S + 0.002)
    assert not ended(scheduler.handle(Ticked(), LISTED_LIMIT_S)), "that is the time of the first one, which has ended"
    assert ended(scheduler.handle(Ticked(), LISTED_LIMIT_S + 0.001))
    gone = scheduler.handle(RunnerGone(start.runner, "SIGTERM", 1, 0), LISTED_LIMIT_S + 1.0)
    assert told(gone) == {3: Code.TIMED_OUT}
    assert started(gone).jobs == [4, 5], "those behind it waited here"
    scheduler.check()


def test_one_whose_time_is_over_when_that_is_known_is_ended_at_once(scheduler: NodeScheduler) -> None:
    start = next_lease(scheduler, SHARED, LIMITED, 4)
    scheduler.handle(Ticked(), LONG_S)
    late = LISTED_LIMIT_S + 0.005
    scheduler.handle(BarrierHeld(start.runner, start.lease, 0, ran_s=late - 0.001), late)
    assert ended(scheduler.handle(Ticked(), late))
    assert told(scheduler.handle(RunnerGone(start.runner, "SIGTERM", 0, 0), 1.0)) == {2: Code.TIMED_OUT}
    scheduler.check()


def test_jobs_of_which_it_was_not_seen_that_they_have_ended_are_not_ended(scheduler: NodeScheduler) -> None:
    """Node that stands still, twice, for longer than their time limit."""
    start = next_lease(scheduler, SHARED, LIMITED, 4)
    for late in (0.1, 0.2, 0.3):
        assert not ended(scheduler.handle(Ticked(), late))
    scheduler.handle(BarrierHeld(start.runner, start.lease, 3, ran_s=0.001), 0.3)
    assert not ended(scheduler.handle(Ticked(), 0.299 + LISTED_LIMIT_S * 0.9))
    complete(scheduler, start, [2, 3, 4, 5], 0.31)
    assert scheduler.idle
    scheduler.check()


def test_a_process_that_begins_none_of_them_is_ended_for_the_first_one(scheduler: NodeScheduler) -> None:
    start = next_lease(scheduler, SHARED, LIMITED, 4)
    scheduler.handle(Ticked(), LONG_S)
    assert not ended(scheduler.handle(Ticked(), LISTED_LIMIT_S)), "no barrier stood, so any of them may have begun now"
    assert not ended(scheduler.handle(Ticked(), LISTED_LIMIT_S + UNSEEN_S * 0.9))
    assert ended(scheduler.handle(Ticked(), LISTED_LIMIT_S + UNSEEN_S))
    gone = scheduler.handle(RunnerGone(start.runner, "SIGKILL", -1, 0), LISTED_LIMIT_S + 7.0)
    assert told(gone) == {2: Code.TIMED_OUT}
    assert started(gone).jobs == [3, 4, 5]
    scheduler.check()


# --- different limits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", range(3))
def test_each_has_its_own_time(scheduler: NodeScheduler, position: int) -> None:
    limits, began = (3.0, 5.0, 2.0), 0.002
    start = limited(scheduler, *limits)
    complete(scheduler, start, start.jobs[:position], 0.003)
    scheduler.handle(Ticked(), LONG_S)
    scheduler.handle(BarrierHeld(start.runner, start.lease, position, ran_s=LONG_S - began), LONG_S)
    assert not ended(scheduler.handle(Ticked(), began + limits[position] - 0.001))
    assert ended(scheduler.handle(Ticked(), began + limits[position]))
    gone = scheduler.handle(RunnerGone(start.runner, "SIGTERM", position, 0), 9.0)
    assert told(gone) == {900 + position: Code.TIMED_OUT}
    behind = start.jobs[position + 1 :]
    assert started(gone).jobs == behind if behind else scheduler.idle
    scheduler.check()


@pytest.mark.parametrize("limits", [(None, 2.0), (2.0, None)])
def test_one_without_a_limit_may_run_for_ever_beside_one_that_has_one(
    scheduler: NodeScheduler, limits: tuple[float | None, ...]
) -> None:
    start, position = limited(scheduler, *limits), limits.index(None)
    complete(scheduler, start, start.jobs[:position], 0.001)
    scheduler.handle(Ticked(), LONG_S)
    scheduler.handle(BarrierHeld(start.runner, start.lease, position), LONG_S)
    for late in (2.1, 1e3, 1e6):
        assert not ended(scheduler.handle(Ticked(), late))
    complete(scheduler, start, [900 + position], 1e6)
    scheduler.check()


def test_one_that_never_begins_is_ended_for_its_own_time_as_soon_as_it_is_up(scheduler: NodeScheduler) -> None:
    """Its function may hang when it is loaded, so that no barrier is ever held there."""
    start = limited(scheduler, 600.0, 2.0, None)
    complete(scheduler, start, [900], 0.5)
    assert not ended(scheduler.handle(Ticked(), 2.5)), "it may have ended, and the next one have begun"
    assert ended(scheduler.handle(Ticked(), 4.5))
    gone = scheduler.handle(RunnerGone(start.runner, "SIGTERM", 1, 0), 5.0)
    assert told(gone) == {901: Code.TIMED_OUT}
    assert started(gone).jobs == [902]
    scheduler.check()


def test_the_limit_of_one_that_has_ended_is_not_the_next_ones(scheduler: NodeScheduler) -> None:
    start = limited(scheduler, 2.0, 600.0)
    scheduler.handle(Ticked(), 2.0)
    complete(scheduler, start, [900], 3.5)
    for late in (4.0, 10.0, 600.0):
        assert not ended(scheduler.handle(Ticked(), late))
    assert not ended(scheduler.handle(Ticked(), 603.5))
    assert ended(scheduler.handle(Ticked(), 1203.5))


def test_a_process_that_is_being_ended_for_one_has_no_time_for_the_next(scheduler: NodeScheduler) -> None:
    start = limited(scheduler, 2.0, 3.0)
    scheduler.handle(Ticked(), LONG_S)
    scheduler.handle(Ticked(), 2.0)
    assert ended(scheduler.handle(Ticked(), 4.0))
    first = batch(start, [900], [4.0], Code.CANCELLED)
    assert told(scheduler.handle(RunnerCompleted(start.runner, first), 4.1)) == {900: Code.TIMED_OUT}
    scheduler.handle(Ticked(), 8.0)
    gone = scheduler.handle(RunnerGone(start.runner, "SIGKILL", 0, 0, called={start.lease: 0}), 8.5)
    assert told(gone) == {901: Code.UNBEGUN}
    scheduler.check()


def test_where_the_first_is_cancelled_and_hangs_none_behind_it_is_blamed(scheduler: NodeScheduler) -> None:
    start = limited(scheduler, 2.0, 3.0)
    scheduler.handle(Cancel([900], [1]), 0.001)
    scheduler.handle(Ticked(), 2.0)
    assert ended(scheduler.handle(Ticked(), 4.0))
    gone = scheduler.handle(RunnerGone(start.runner, "SIGTERM", -1, 0), 4.1)
    assert told(gone) == {900: Code.CANCELLED}
    assert started(gone).jobs == [901]
    scheduler.check()


def test_the_times_of_a_process_that_comes_up_late_count_from_then(scheduler: NodeScheduler) -> None:
    start = limited(scheduler, None, 2.0)
    scheduler.handle(RunnerReady(start.runner), 100.0)
    assert not ended(scheduler.handle(Ticked(), 200.0))
    complete(scheduler, start, [900], 300.0)
    scheduler.handle(BarrierHeld(start.runner, start.lease, 1), 300.0)
    assert not ended(scheduler.handle(Ticked(), 301.9))
    assert ended(scheduler.handle(Ticked(), 302.0))


def test_jobs_with_large_arguments_are_sent_to_a_process_once(scheduler: NodeScheduler) -> None:
    jobs = list(range(100, 120))
    sized(scheduler, jobs, [RUN_LIST_BYTES + 1] * len(jobs))
    actions, sent = complete_first(scheduler), []
    while any(isinstance(action, StartLease) for action in actions):
        start = started(actions)
        sent += start.jobs
        late = scheduler.handle(Ticked(), LONG_S * 2)
        assert not any(isinstance(action, RaiseBarrier) for action in late)
        actions = complete(scheduler, start, start.jobs, LONG_S * 2)
    assert sent == jobs


def test_a_list_has_no_more_bytes_than_a_process_is_sent_at_once(scheduler: NodeScheduler) -> None:
    sized(scheduler, [100, 101, 102, 103], [RUN_LIST_BYTES // 2, RUN_LIST_BYTES // 2, 1, 2 * RUN_LIST_BYTES])
    start = started(complete_first(scheduler))
    assert start.jobs == [100, 101]
    start = started(complete(scheduler, start, start.jobs))
    assert start.jobs == [102]
    assert started(complete(scheduler, start, start.jobs)).jobs == [103]


def sized(scheduler: NodeScheduler, jobs: list[int], sizes: list[int]) -> None:
    """Send jobs ahead whose arguments have so many bytes."""
    count = len(jobs)
    columns = [1] * count, [FREE] * count, [b""] * count, [1] * count
    scheduler.handle(AssignSized(Assign(SHARED, True, jobs, *columns), sizes), 0.0)


def complete_first(scheduler: NodeScheduler) -> list[NodeAction]:
    """End the job behind which all others wait."""
    return complete(scheduler, StartLease(1, scheduler._last_lease, "", [1], [1], [FREE], [None], None), [1])


# --- several functions ------------------------------------------------------------------------------------------------

OTHER, SLOWER, NEW, AWAITS_TOO, TOO = range(6, 11)
WALLS = {OTHER: 0.0004, SLOWER: 0.001, AWAITS_TOO: 1e-6}


@pytest.fixture
def several(scheduler: NodeScheduler) -> NodeScheduler:
    """The same with more functions, all but one of which are known to be tiny."""
    functions = [
        FunctionSpec(fn, b"%d" % fn, f"f{fn}", fn == AWAITS_TOO, None) for fn in (OTHER, SLOWER, NEW, AWAITS_TOO)
    ]
    scheduler.handle(Define(functions, []), 0.0)
    complete_first(scheduler)
    for fn, wall in WALLS.items():
        for job in range(10):
            start = started(assign(scheduler, ISOLATED, fn, [1000 * fn + job]))
            scheduler.handle(RunnerCompleted(start.runner, batch(start, start.jobs, [wall])), 0.0)
    started(assign(scheduler, SHARED, FREE, [1]))
    return scheduler


def batch(
    start: StartLease, jobs: list[int], walls: list[float], code: Code = Code.SUCCEEDED, *, awaited: bool = False
) -> Completed:
    count = len(jobs)
    columns = [1] * count, [int(code)] * count, [0.0] * count, walls, [0.0] * count, [0] * count, [b""] * count
    return Completed(start.lease, jobs, *columns, [], 0.0, awaited)


def mixed(scheduler: NodeScheduler, *fns: int) -> StartLease:
    """Send a job of each of these ahead; return the lease that starts when the running one ends."""
    for job, fn in enumerate(fns, 2):
        assert not assign(scheduler, SHARED, fn, [job], ahead=True)
    return started(complete_first(scheduler))


def test_tiny_functions_in_turn_share_a_lease(several: NodeScheduler) -> None:
    assert mixed(several, FREE, OTHER, FREE, OTHER).fns == [FREE, OTHER, FREE, OTHER]
    several.check()


def test_also_where_one_has_a_timeout(several: NodeScheduler) -> None:
    start = mixed(several, FREE, LIMITED, OTHER)
    assert (start.fns, start.limits) == ([FREE, LIMITED, OTHER], (None, LISTED_LIMIT_S, None))
    several.check()


@pytest.mark.parametrize("fn", [NEW, AWAITS, HURRIED])
def test_one_that_is_not_known_or_of_another_kind_or_has_a_short_limit_ends_the_list(
    several: NodeScheduler, fn: int
) -> None:
    assert mixed(several, FREE, OTHER, fn, FREE).fns == [FREE, OTHER]


def test_each_counts_for_the_time_of_its_own_function(several: NodeScheduler) -> None:
    assert mixed(several, SLOWER, OTHER, OTHER, OTHER).fns == [SLOWER, OTHER, OTHER]


def test_and_for_the_time_that_it_takes_to_put_the_process_in_order_between_two_functions(
    several: NodeScheduler,
) -> None:
    scheduler = several
    functions = [FunctionSpec(TOO, b"too", "too", is_async=False, timeout=None)]
    scheduler.handle(Define(functions, []), 0.0)
    complete_first(scheduler)
    for job in range(10):
        start = started(assign(scheduler, ISOLATED, TOO, [1000 * TOO + job]))
        complete(scheduler, start, start.jobs)
    started(assign(scheduler, SHARED, FREE, [1]))
    assert len(mixed(scheduler, *[FREE, TOO] * 40).jobs) == 1 + int((RUN_LIST_S - 1e-6) / APART_S)


def test_functions_that_differ_in_their_options_alone_need_no_such_time(scheduler: NodeScheduler) -> None:
    functions = [FunctionSpec(fn, b"the same", f"f{fn}", is_async=False, timeout=fn) for fn in (OTHER, TOO)]
    scheduler.handle(Define(functions, []), 0.0)
    complete_first(scheduler)
    for fn in (OTHER, TOO):
        for job in range(10):
            start = started(assign(scheduler, ISOLATED, fn, [1000 * fn + job]))
            complete(scheduler, start, start.jobs)
    started(assign(scheduler, SHARED, FREE, [1]))
    assert len(mixed(scheduler, *[OTHER, TOO] * 40).jobs) == 80


def test_coroutines_need_no_such_time(several: NodeScheduler) -> None:
    assert len(mixed(several, *[AWAITS, AWAITS_TOO] * 40).jobs) == 80


def test_the_bytes_of_all_of_them_count(several: NodeScheduler) -> None:
    half = RUN_LIST_BYTES // 2
    for job, fn, nbytes in ((100, FREE, half), (101, OTHER, half), (102, FREE, 1)):
        several.handle(AssignSized(Assign(SHARED, True, [job], [1], [fn], [b""], [1]), [nbytes]), 0.0)
    assert started(complete_first(several)).jobs == [100, 101]


def test_run_times_are_learnt_by_function(several: NodeScheduler) -> None:
    start = mixed(several, FREE, OTHER, FREE)
    several.handle(RunnerCompleted(start.runner, batch(start, [2, 3], [1e-6, 0.0015])), 0.0)
    failed = batch(start, [4], [1.0], Code.FAILED)
    several.handle(RunnerCompleted(start.runner, failed), 0.0)
    times = {fn: several._functions[fn].times for fn in (FREE, OTHER)}
    assert times[FREE].mean == pytest.approx(1e-6)
    assert times[OTHER].mean == pytest.approx(0.0005)
    several.check()


def test_jobs_that_had_not_begun_when_the_process_died_lose_no_attempt(several: NodeScheduler) -> None:
    start = mixed(several, FREE, OTHER, FREE, OTHER)
    complete(several, start, [2])
    gone = several.handle(RunnerGone(start.runner, "SIGKILL", 1, 0), 0.001)
    assert told(gone) == {3: Code.CRASHED}
    assert started(gone).jobs == [4, 5]
    assert started(gone).attempts == [1, 1]


def test_only_the_function_of_the_job_that_suspends_is_kept_out(several: NodeScheduler) -> None:
    start = mixed(several, AWAITS, AWAITS_TOO, AWAITS, AWAITS_TOO)
    assert start.fns == [AWAITS, AWAITS_TOO, AWAITS, AWAITS_TOO]
    complete(several, start, [2])
    assert awaiting(several) == []
    back = batch(start, [4, 5], [0.0, 0.0], Code.RETURNED, awaited=True)
    several.handle(RunnerCompleted(start.runner, back), 0.0)
    assert awaiting(several) == [AWAITS_TOO], "before it has ended: what comes next need not be handed back"
    several.handle(RunnerCompleted(start.runner, batch(start, [3], [1.0], Code.FAILED, awaited=True)), 0.0)
    assert awaiting(several) == [AWAITS_TOO]
    several.check()


def test_or_of_one_that_has_lent_its_cores(several: NodeScheduler) -> None:
    start = mixed(several, FREE, OTHER, FREE)
    complete(several, start, [2])
    last = batch(start, [3, 4], [1.0, 0.0], awaited=True)
    last.codes[1] = Code.RETURNED
    several.handle(RunnerCompleted(start.runner, last), 0.0)
    assert awaiting(several) == [OTHER]


def awaiting(scheduler: NodeScheduler) -> list[int]:
    return [fn for fn, function in scheduler._functions.items() if function.times.awaits]
