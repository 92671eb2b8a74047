"""Listings: nothing that a terminal would obey, whole lines in pipes, times that people read."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grainlike.cli._past import transfer_words
from grainlike.cli._words import amounts, as_plain, bytes_text, escaped, escaped_line, print_jobs, print_table, seconds
from grainlike.resources import UNIT, amount_text, amount_texts, quantity
from grainlike.wire import JobRow, JobsAre, Totals


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünïcode", "plain ünïcode"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\u202eback", "\\u202eback"),
        ("\x9b2J", "\\x9b2J"),
    ],
)
def test_what_a_terminal_might_obey_is_shown_instead(text, shown):
    assert escaped(text) == shown


def test_of_a_line_of_output_tabs_and_colours_are_let_be():
    assert escaped_line("\t\x1b[1;31mred\x1b[0m\x1b]0;title\x07\r") == "\t\x1b[1;31mred\x1b[0m\\x1b]0;title\\x07\\r"


def test_a_table_in_a_pipe_is_not_cut_and_knows_no_markup(capsys):
    long = "x" * 300
    print_table(["name", "what"], [(long, "[red]r[/red]")])
    out = capsys.readouterr().out
    assert long in out
    assert "[red]r[/red]" in out


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (0.0, "0.0 s"),
        (0.0056, "5.6 ms"),
        (0.0003, "0.3 ms"),
        (0.0994, "99 ms"),
        (0.0996, "0.1 s"),
        (59.9, "59.9 s"),
        (61, "1:01"),
        (3723, "1:02:03"),
    ],
)
def test_times(value, shown):
    assert seconds(value) == shown


@pytest.mark.parametrize(
    ("counted", "shown"),
    [
        ({"sent": 800}, ""),
        ({"moved": 40 << 20}, "large values: 40Mi moved between workers"),
        (
            {"moved": 9 << 20, "relayed": 1 << 20, "recomputed": 2},
            "large values: 9Mi moved between workers, 1Mi of that through the head; lost ones were made again 2 times",
        ),
        ({"fetched": 1 << 20, "recomputed": 1}, "large values: 1Mi came to programs; lost ones were made again once"),
    ],
)
def test_a_report_tells_of_large_values_that_travelled_or_were_made_again(counted, shown):
    jobs = dict.fromkeys(("succeeded", "failed", "skipped", "timed_out", "cancelled"), 1)
    assert transfer_words(Totals(**jobs, total_seconds=1.0, run_seconds=1.0, **counted)) == shown


def test_a_message_as_json_has_names_and_no_number_of_the_question():
    row = JobRow(1, "f", "queued", "cores=1", 0, 0, 1, "", "", None)
    plain = as_plain(JobsAre(7, [row], 1))
    assert list(plain) == ["jobs", "total", "next"]
    assert plain["jobs"][0]["request"] == "cores=1"


def test_memory_is_shown_as_people_write_it():
    text = "cores=[0,1] memory=1073741824:grow=2:max=4000000000 | memory=4796510208 xmemory=1024"
    shown = amounts(text)
    assert shown == "cores=[0,1] memory=1Gi:grow=2:max=4G | memory=4.5Gi xmemory=1024"


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, ""),
        (17, "17B"),
        (4096, "4Ki"),
        (4_684_092 * 1024, "4.5Gi"),
        (3 * 2**29, "1.5Gi"),
        (2**30 - 1, "1.0Gi"),
        (500_000_000, "500M"),
    ],
)
def test_bytes(size, shown):
    assert bytes_text(size) == shown


@given(st.integers(1, 2**69))
def test_an_amount_of_memory_is_short_and_nearly_exact(units):
    text = amount_text("memory", units * UNIT)
    assert len(text) <= 8
    assert abs(quantity(text) - units * UNIT) <= units * UNIT // 20


@given(st.integers(2**20, 2**50), st.integers(1, 2**20))
def test_amounts_that_are_compared_differ_in_their_texts(amount, more):
    one, other = amount_texts("memory", amount * UNIT, (amount + more) * UNIT)
    assert quantity(one) != quantity(other)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_table_in_a_terminal_fits_it(monkeypatch):
    out = Terminal()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setenv("COLUMNS", "80")
    print_table(["name", "error"], [("x" * 300, "\x1b[31m " * 100)])
    assert max(map(len, out.getvalue().splitlines())) <= 80
    assert "\x1b" not in out.getvalue()


def test_a_job_that_is_tried_again_shows_its_attempt(capsys):
    print_jobs([JobRow(7, "f", "queued", "cores=1", 0, 0, attempt, "", "", None) for attempt in (1, 2)])
    _, _, first, second = capsys.readouterr().out.splitlines()
    assert "queued, attempt 2" in second
    assert "attempt" not in first


def test_a_job_whose_process_is_halted_shows_that(capsys):
    print_jobs([JobRow(7, "f", "running", "cores=1", 0, 0, 2, "n1", "", 1.0, halted="stopped (SIGSTOP)")])
    assert "running, stopped (SIGSTOP), attempt 2" in capsys.readouterr().out
