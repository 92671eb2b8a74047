"""The window of a stream: both ends, with every order of making and taking that a seed can think of."""

from __future__ import annotations

import random

import pytest

from grainlike.wire import WINDOW_BYTES, WINDOW_ITEMS, Debt, Window


@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("largest", [1, WINDOW_BYTES // 8, 2 * WINDOW_BYTES])
def test_the_ends_never_wait_for_each_other_and_the_window_is_never_passed(seed: int, largest: int) -> None:
    dice = random.Random(seed)
    window, debt = Window(), Debt()
    under_way: list[int] = []
    credit: list[tuple[int, int]] = []
    for _ in range(300):
        moves = [name for name, able in (("make", window.open), ("take", under_way), ("credit", credit)) if able]
        assert moves, "both wait"
        match dice.choice(moves):
            case "make":
                under_way.append(dice.randint(0, largest))
                window.sent(under_way[-1])
            case "take":
                due = debt.took(under_way.pop(0))
                if due is not None:
                    credit.append(due)
            case "credit":
                window.credited(*credit.pop(0))
        assert len(under_way) <= WINDOW_ITEMS
        assert sum(under_way[:-1]) < WINDOW_BYTES


def test_credit_comes_in_portions_of_half_a_window() -> None:
    debt = Debt()
    half = WINDOW_ITEMS // 2
    assert [debt.took(1) for _ in range(half)] == [None] * (half - 1) + [(half, half)]
    assert debt.took(WINDOW_BYTES // 2) == (1, WINDOW_BYTES // 2)
