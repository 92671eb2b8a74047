"""Memory that is rounded up: by little, always the same, and shown as each job asked for it."""

from hypothesis import given
from hypothesis import strategies as st

from grainlike.resources import (
    Cores,
    Memory,
    Nodes,
    Request,
    Token,
    memory_rounded,
    parse_allocation,
    with_memory,
    with_memory_text,
)

amounts = st.integers(1, 2**50)


def rounded(amount: int) -> int:
    found = memory_rounded(Memory(amount))
    assert found is not None
    return int(found["memory"])


@given(amounts)
def test_it_is_rounded_up_by_a_sixteenth_at_most_and_once(amount):
    once = rounded(amount)
    assert amount <= once <= amount + amount // 16
    assert rounded(once) == once


@given(amounts, amounts)
def test_the_larger_amount_is_never_rounded_to_less(one, other):
    assert (rounded(one) <= rounded(other)) or one > other


def test_all_else_of_a_request_stays():
    found = memory_rounded(Cores(2) & Memory(1_000_001) & Token("big"))
    assert found == Cores(2) & Memory(1_015_808) & Token("big")


def test_what_may_not_be_rounded_is_told():
    assert memory_rounded(Cores(1)) is None
    assert memory_rounded(Memory(1_000_001) | Cores(1)) is None
    assert memory_rounded(Nodes(2, each=Memory(1_000_001))) is None
    assert memory_rounded(Memory(1_000_001, grow=2)) is None
    same: Request = Memory(1_015_808)
    assert memory_rounded(same) is same


@given(st.integers(1, 2**40), st.integers(1, 2**40))
def test_the_part_of_a_lease_that_a_job_has_reads_the_same_as_an_object_and_as_text(memory, part):
    text = f"cores=[1,5] gpus=[0] memory={memory} out-memory=3 x.memory=2"
    assert str(with_memory(parse_allocation(text), part)) == with_memory_text(text, part)
