"""Machines of a pool by SSH: who gets the next block, who is put aside and for how long, and what listings change."""

from grainlike.dialects import ListedBlock
from grainlike.launch._machines import ASIDE_S, LONGEST_ASIDE_S, LOST_S, Machines


def of(*names):
    """Return the book of some machines."""
    machines = Machines()
    machines.use(names)
    return machines


def test_each_machine_gets_one_block_in_order():
    machines = of("n1", "n2")
    assert [machines.take(block, 0.0) for block in ("b1", "b2", "b3")] == ["n1", "n2", None]
    assert machines.why_none() == "all of 2 machines have a block"
    machines.release("b1")
    assert machines.take("b4", 0.0) == "n1"


def test_one_that_fails_goes_to_the_end_of_the_line_and_waits_longer_each_time():
    machines = of("n1", "n2")
    now = 0.0
    for times in range(12):
        assert machines.take("b1", now) == "n1"
        machines.release("b1")
        machines.failed("n1", "Permission denied", now)
        wait = min(LONGEST_ASIDE_S, ASIDE_S * 2.0**times)
        assert machines.take("b2", now + 1.0) == "n2"
        assert machines.take("b3", now + wait - 0.1) is None
        assert machines.why_none() == "n1: Permission denied"
        assert machines.take("b3", now + wait) == "n1"
        machines.release("b3")
        machines.release("b2")
        machines.failed("n2", "full", now + wait)  # so that n1 is first again
        now += LONGEST_ASIDE_S + wait


def test_after_a_pause_all_are_tried_again_the_one_that_failed_last_as_the_last():
    machines = of("n1", "n2", "n3")
    for at, name in enumerate(("n2", "n1", "n3")):
        machines.failed(name, "down", float(at))
    assert not machines.is_any_free(3.0)
    machines.try_all()
    assert [machines.take(block, 4.0) for block in ("b1", "b2", "b3")] == ["n2", "n1", "n3"]


def test_one_that_has_taken_a_block_is_first_again():
    machines = of("n1", "n2")
    machines.failed("n1", "down", 1.0)
    assert machines.take("b1", 1.0 + ASIDE_S) == "n2"
    assert machines.take("b2", 1.0 + ASIDE_S) == "n1"
    machines.taken("b2", "7:8@n1")
    machines.release("b1")
    machines.release("b2")
    assert machines.take("b3", 1.0 + ASIDE_S) == "n1"


def test_an_answer_makes_up_for_silence_but_not_for_a_refusal():
    machines = of("n1", "n2")
    machines.silent("n1", "Connection refused", 0.0)
    machines.failed("n2", "cannot make ...", 0.0)
    question, _ = machines.ask(1.0)
    for name in ("n1", "n2"):
        machines.answered(name, question, {}, set())
    assert [machines.take(block, 1.0) for block in ("b1", "b2")] == ["n1", None]


def test_those_put_aside_are_not_asked_unless_they_have_blocks_or_nobody_else_is_there():
    machines = of("n1", "n2", "n3")
    assert machines.take("b1", 0.0) == "n1"
    for name in ("n1", "n2"):
        machines.silent(name, "down", 0.0)
    assert machines.ask(1.0)[1] == ["n1", "n3"]
    machines.failed("n3", "down", 1.0)
    assert machines.ask(2.0)[1] == ["n1"]
    machines.release("b1")
    assert machines.ask(2.0)[1] == ["n1", "n2", "n3"]


def test_a_listing_from_before_the_answer_to_a_submission_says_nothing_of_it():
    machines = of("n1")
    machines.take("b1", 0.0)
    for answer in (lambda: None, lambda: machines.taken("b1", "7:8@n1"), lambda: machines.unclear("b1")):
        question, _ = machines.ask(0.0)
        answer()
        machines.answered("n1", question, {}, {"b1"})
        assert machines.machine_of("b1") == "n1"
    question, _ = machines.ask(0.0)
    machines.answered("n1", question, {}, {"b1"})
    assert machines.machine_of("b1") is None


def test_a_block_that_is_told_to_have_ended_before_its_submission_is_answered_leaves_its_machine_to_the_next():
    for answered in (False, True):  # a listing that was asked before the answer says more here than that it has none
        machines = of("n1", "n2")
        machines.failed("n2", "down", 0.0)
        assert machines.take("b1", 0.0) == "n1"
        question, _ = machines.ask(1.0)
        if answered:
            machines.taken("b1", "7:8@n1")
        machines.answered("n1", question, {}, {"b1"})
        assert machines.take("b2", 2.0) is None
        machines.ended("n2", "b1", 2.0)
        assert machines.take("b2", 2.0) is None, "another one tells of it"
        machines.ended("n1", "b1", 2.0)
        machines.taken("b1", "7:8@n1")
        assert machines.take("b2", 2.0) == "n1"


def test_a_block_that_has_not_begun_stays_where_it_was_submitted_though_others_see_it():
    machines = of("n1", "n2")
    machines.take("b1", 0.0)
    machines.taken("b1", "")
    question, _ = machines.ask(0.0)
    machines.answered("n2", question, {"b1": "", "another's": ""}, {"b1"})
    assert (machines.machine_of("b1"), machines.machine_of("another's")) == ("n1", None)


def test_a_silent_machines_blocks_are_as_they_were_but_not_for_ever():
    machines = of("n1")
    machines.remember("b1", "7:8@n1", "n1")
    assert list(machines.on_silent(0.0)) == []
    machines.silent("n1", "No route to host", 5.0)
    (row,) = machines.on_silent(5.0)
    assert row == ListedBlock("7:8@n1", "b1", "unknown", "n1: No route to host", nodes=("n1",))
    machines.silent("n1", "Connection refused", 50.0)
    (row,) = machines.on_silent(5.0 + LOST_S)
    assert (row.state, row.reason) == ("ended", "n1: Connection refused")
    question, _ = machines.ask(200.0)
    machines.answered("n1", question, {"b1": "7:8@n1"}, {"b1"})
    assert list(machines.on_silent(500.0)) == []
    assert machines.machine_of("b1") == "n1"


def test_blocks_on_machines_that_a_pool_has_no_more_are_still_asked_for():
    machines = of("n1", "n2")
    machines.take("b1", 0.0)
    machines.use(["n3"])
    assert machines.ask(0.0)[1] == ["n1", "n3"]
    assert machines.take("b2", 0.0) == "n3"
