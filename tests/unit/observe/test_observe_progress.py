"""Counts of calls at moments become rates and times that are left; the clock is the test's own."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from grainlike.observe import CallCounts, FunctionProgress, ProgressCounter, as_html, as_line, as_table


def counted(known: int, running: int, done: int, failed: int = 0, cancelled: int = 0) -> CallCounts:
    return CallCounts(known, running, done - failed, failed, cancelled)


class Watched:
    """The progress of one function, at moments that the test names."""

    def __init__(self) -> None:
        self.counter = ProgressCounter(0.0)

    def take(self, at: float, counts: CallCounts) -> FunctionProgress:
        self.counter.take(at, {"fn": counts})
        return self.at(at)

    def at(self, moment: float) -> FunctionProgress:
        (row,) = self.counter.rows(moment, 8)
        return row


def test_counts_add_up() -> None:
    counts = CallCounts(10, 2, 3, 1, 1)
    assert (counts.ended, counts.done, counts.left, counts.waiting) == (5, 4, 5, 3)
    assert counts + CallCounts(5, 1, 1, 1, 1) == CallCounts(15, 3, 4, 2, 2)


def test_nothing_is_known_before_the_first_end() -> None:
    watched = Watched()
    row = watched.take(1.0, counted(100, 4, 0))
    assert (row.rate, row.left_s, row.took_s) == (None, None, None)
    assert watched.at(1000.0) == row


def test_a_steady_pace_tells_what_is_left() -> None:
    watched = Watched()
    for second in range(1, 21):
        row = watched.take(second, counted(100, 2, 2 * second))
    assert row.rate == 2.0
    assert row.left_s == 30.0
    assert watched.at(20.5).left_s == 29.5


def test_the_time_before_the_first_start_does_not_count() -> None:
    watched = Watched()
    for second in range(1, 100):
        watched.take(second, counted(10, 0, 0))
    watched.take(100, counted(10, 1, 0))
    row = watched.take(109, counted(10, 1, 5))
    assert row.rate == pytest.approx(0.5)
    assert watched.take(119, counted(10, 0, 10)).took_s == 20.0


def test_it_is_unknown_until_as_many_have_ended_as_run() -> None:
    watched = Watched()
    watched.take(0.1, counted(100, 8, 0))
    row = watched.take(1, counted(100, 8, 3))
    assert row.rate is not None
    assert row.left_s is None
    assert watched.take(2, counted(100, 8, 8)).left_s is not None


def test_calls_that_end_in_waves_have_the_same_end_at_each_moment() -> None:
    watched = Watched()
    for second in range(1, 201):
        row = watched.take(second, counted(16, 4, 4 * (second // 60)))
        if second >= 60:
            assert row.left_s is not None
            assert second + row.left_s == pytest.approx(240, abs=1)


def test_an_end_that_is_late_puts_the_rest_off_and_then_nothing_is_known() -> None:
    watched = Watched()
    for second in range(10, 60, 10):
        watched.take(second, counted(10, 1, second // 10))
    assert watched.at(55).left_s == pytest.approx(45)
    assert watched.at(60).left_s == watched.at(75).left_s == pytest.approx(40)
    assert watched.at(81).left_s is None
    assert watched.at(75).rate == pytest.approx(3 / 55)  # of the last half minute with an end


def test_the_last_while_counts_and_not_what_was_before() -> None:
    watched = Watched()
    done = 0
    for second in range(1, 101):
        done += 10
        watched.take(second, counted(5000, 2, done))
    for second in range(101, 161):
        done += 1
        row = watched.take(second, counted(5000, 2, done))
    assert row.rate == 1.0
    assert row.left_s == 5000 - done


def test_slow_calls_have_a_longer_while() -> None:
    watched = Watched()
    for wave in range(1, 6):
        row = watched.take(600 * wave, counted(100, 10, 10 * wave))
    assert row.rate == pytest.approx(10 / 600)
    assert row.left_s == pytest.approx(50 * 60)


def test_what_is_left_is_unknown_while_calls_are_added_as_fast_as_they_end() -> None:
    watched = Watched()
    watched.take(1, counted(102, 2, 2))
    for second in range(2, 50):
        row = watched.take(second, counted(100 + 2 * second, 2, 2 * second))
        assert row.left_s is None
    assert row.rate == pytest.approx(2.0)


def test_a_while_without_calls_is_no_part_of_the_pace() -> None:
    watched = Watched()
    watched.take(5, counted(10, 2, 5))
    watched.take(10, counted(10, 0, 10))
    for second in range(11, 1000):
        assert watched.take(second, counted(10, 0, 10)).rate == 1.0
    watched.take(1000, counted(30, 2, 10))
    row = watched.take(1009, counted(30, 2, 20))
    assert row.rate == 1.0
    assert row.left_s == 10.0


def test_what_was_cancelled_is_not_left_and_says_nothing_of_the_pace() -> None:
    watched = Watched()
    watched.take(1, counted(100, 1, 1))
    row = watched.take(2, counted(100, 1, 2, cancelled=50))
    assert row.counts.left == 48
    assert row.rate == 1.0
    assert row.left_s == 48.0
    assert watched.take(50, counted(100, 0, 50, cancelled=50)).took_s == 50.0


def test_calls_that_were_found_ended_count_and_say_nothing_of_the_pace() -> None:
    counter = ProgressCounter(0.0)
    counter.take(1.0, {}, {"fn": counted(50, 0, 50, failed=1)})
    (row,) = counter.rows(1.0, 8)
    assert row == FunctionProgress("fn", counted(50, 0, 50, failed=1))
    for second in range(2, 8):
        counter.take(second, {"fn": counted(10, 1, second - 1)}, {"fn": counted(50, 0, 50, failed=1)})
    (row,) = counter.rows(7.0, 8)
    assert row.counts == counted(60, 1, 56, failed=1)
    assert (row.rate, row.left_s, row.took_s) == (1.0, 4.0, None)
    assert as_line([row]) == "fn: 55/60 done, 1 running, 3 waiting, 1 failed, 1/s, 0:04 left"


def test_more_functions_than_rows_are_put_together_with_those_that_go_on_first() -> None:
    counter = ProgressCounter(0.0)
    counts = {f"f{n}": counted(10, 0, 10) if n % 2 else counted(10, 1, 5) for n in range(6)}
    counter.take(5.0, counts)
    assert [row.name for row in counter.rows(5.0, 6)] == list(counts)
    rows = counter.rows(5.0, 3)
    assert [row.name for row in rows] == ["f0", "f2", "4 others"]
    assert rows[2].counts == counted(40, 1, 35)
    assert rows[2].rate == 1.0
    assert rows[2].left_s == 5.0
    assert rows[2].took_s is None


def test_others_are_left_for_an_unknown_time_if_one_of_them_is() -> None:
    counter = ProgressCounter(0.0)
    counter.take(5.0, {"a": counted(2, 1, 1), "b": counted(10, 1, 5), "c": counted(10, 1, 0)})
    (_, others) = counter.rows(5.0, 2)
    assert others.counts.known == 20
    assert others.left_s is None


ROWS = [
    FunctionProgress("simulate", counted(200, 4, 120, failed=2), 12.34, 6.4),
    FunctionProgress("[red]name\x1b[2J", counted(1, 0, 0)),
    FunctionProgress("sum_up", counted(1, 0, 1), 0.01, None, 90.0),
]


def printed(rows: list[FunctionProgress], width: int) -> list[str]:
    console = Console(width=width, record=True, force_terminal=True, file=StringIO())
    console.print(as_table(rows, width))
    return [line.rstrip() for line in console.export_text().splitlines()]


@pytest.mark.parametrize("width", [80, 200])
def test_a_table_has_a_row_a_function(width: int) -> None:
    titles, *rows = printed(ROWS, width)
    assert titles.split() == ["done", "running", "waiting", "failed", "rate", "left"]
    words = [[word for word in row.split() if not set(word) <= set("━╸╺")] for row in rows]
    assert words == [
        ["simulate", "118/200", "4", "76", "2", "12.3/s", "0:06"],
        ["[red]name?[2J", "0/1", "0", "1", "0", "-", "-"],
        ["sum_up", "1/1", "0", "0", "0", "36/h", "in", "1:30"],
    ]


@pytest.mark.parametrize("width", [40, 60])
def test_a_narrow_table_breaks_no_number(width: int) -> None:
    rows = printed(ROWS, width)
    assert rows[0].split() == ["done", "failed", "left"]
    assert rows[1].endswith("118/200       2     0:06")
    assert all(len(row) <= width for row in rows)


def test_what_was_cancelled_has_a_column_where_there_is_any() -> None:
    titles, row = printed([FunctionProgress("fn", counted(9, 0, 4, cancelled=5), 2.0, None, 2.0)], 100)
    assert titles.split() == ["done", "running", "waiting", "failed", "cancelled", "rate", "left"]
    assert row.split()[-7:] == ["4/9", "0", "0", "0", "5", "2/s", "in", "2.0", "s"][-7:]


def test_html_escapes_names() -> None:
    found = as_html([FunctionProgress("<script>&", counted(4, 0, 3))])
    assert "<th>&lt;script&gt;&amp;</th>" in found
    assert '<progress max="4" value="3">' in found
    assert "<td>3/4</td>" in found


def test_a_line_tells_what_is_not_nothing() -> None:
    assert as_line(ROWS) == (
        "simulate: 118/200 done, 4 running, 76 waiting, 2 failed, 12.3/s, 0:06 left; "
        "[red]name?[2J: 0/1 done, 1 waiting; sum_up: 1/1 done, 36/h, in 1:30"
    )
