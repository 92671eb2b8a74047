"""Tables in terminals of all widths: every line fits, no number is broken, and what is left out is named."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from grainlike.cli._ask import list_workers
from grainlike.cli.listings import table_lines
from grainlike.cli.listings._cells import cell_lines
from grainlike.wire import WorkerRow

JOBS = ["job", "name", "outcome", "worker", "slots", "ran", "cpu", "memory", "ended", "client", "error"]
ROWS = [
    [
        "4711",
        "fit-of-a-model",
        "failed",
        "node17.1",
        "cores=[6,7] memory=4.5Gi",
        "12.1 s",
        "0:12",
        "4.5Gi",
        "9:00",
        "2",
        "no",
    ],
    ["12", "x", "done", "n1", "cores=[0]", "0.1 s", "0.0 s", "17Mi", "9:01", "2", ""],
]

number = st.integers(0, 10**12).map("{:,}".format) | st.integers(0, 10**9).map(str)
ids = st.lists(st.integers(0, 999), max_size=30).map(lambda found: f"cores=[{','.join(map(str, found))}] memory=4.5Gi")
text = st.text("abXY-_./:,=[]0123456789  é日本", max_size=50)
cells = {"job": number, "ran": number, "size": number, "slots": ids}
titles = st.lists(
    st.sampled_from(["job", "name", "slots", "ran", "size", "worker", "error", "pid"]), min_size=1, unique=True
)


@st.composite
def tables(draw):
    columns = draw(titles)
    rows = draw(st.lists(st.tuples(*(cells.get(title, text | number) for title in columns)), max_size=4))
    return columns, rows


def digits(line):
    return set(re.findall(r"[0-9]+", line))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tables(), st.integers(40, 200))
def test_every_line_fits_and_no_number_is_broken(table, width):
    columns, rows = table
    lines = table_lines(columns, rows, width)
    assert max(map(cell_len, lines)) <= width
    whole = set().union(*(digits(cell) for row in rows for cell in row))
    assert digits(" ".join(lines)) <= whole


@given(tables())
def test_a_pipe_gets_all_of_each_cell_in_one_line(table):
    columns, rows = table
    lines = table_lines(columns, rows, None)
    assert len(lines) == 2 + len(rows)
    assert all(cell.rstrip() in line for row, line in zip(rows, lines[2:], strict=True) for cell in row)


def test_numbers_stand_at_the_right_of_their_column():
    lines = table_lines(["name", "ran"], [["a", "1.0 s"], ["b", "12.0 s"]], 80)
    assert lines == ["name     ran", "────  ──────", "a      1.0 s", "b     12.0 s"]


def test_what_is_worth_least_goes_first_and_is_named():
    wide, narrow = table_lines(JOBS, ROWS, 80), table_lines(JOBS, ROWS, 40)
    assert "error" in wide[0].split()
    assert " ".join(wide[-2:]).startswith("without room here: slots, cpu, ended, client; ")
    assert narrow[0].split() == ["job", "name", "outcome", "error"]


def test_columns_that_are_kept_are_shortened_and_left_out_last():
    rows = [
        ["123456", "fit-of-a-model", "failed", "a-worker-of-some-length", *ROWS[0][4:-1], "ValueError: no such file"]
    ]
    lines = table_lines(JOBS, rows, 40, keep=("worker", "error"))
    assert lines[0].split() == ["job", "worker", "error"]
    assert max(map(cell_len, lines)) <= 40
    assert "name" in " ".join(lines[-3:])
    assert table_lines(JOBS, rows, 20, keep=("worker", "error"))[0].split() == ["job", "error"]
    assert {"worker", "error"} < set(table_lines(JOBS, ROWS, 60, keep=("worker", "error"))[0].split())


@pytest.mark.parametrize("width", [40, 60, 80])
def test_of_failed_jobs_the_error_stays_and_the_worker_before_what_it_used(width):
    row = ["4711", "fit-of-a-model", "failed, attempt 3", "n1", "cores=[6,7]", "12.1 s", "9.0 s", "4.5Gi", "9:00", "2"]
    shown = table_lines(JOBS, [[*row, "ValueError: there are 17 of them, and 12 are wanted"]], width)[0].split()
    assert "error" in shown
    assert "worker" in shown or not {"slots", "cpu", "memory", "client"} & set(shown)


@pytest.mark.parametrize(("width", "kept"), [(32, ["suggested"]), (47, ["peak", "memory", "suggested"])])
def test_of_a_report_what_to_ask_for_stays_longest(width, kept):
    titles = ["function", "jobs ended", "asked for", "cores busy", "peak memory", "ran", "suggested"]
    row = ["fit-of-a-model", "1,200 succeeded, 3 failed", "cores=4 memory=8Gi", "1.02, 1.05, 1.10", "700Mi, 800Mi"]
    rows = [[*row, "12.1 s, 14.0 s, 17.3 s", "cores=1 memory=1Gi"]]
    assert table_lines(titles, rows, width)[0].split() == ["function", *kept]
    shown = table_lines(titles, rows, 80)[0]
    assert [title for title in titles if title not in shown] == ["jobs ended", "cores busy", "ran"]


def test_in_room_enough_nothing_is_said_of_room():
    assert len(table_lines(JOBS, ROWS, 200)) == 2 + len(ROWS)


@pytest.mark.parametrize(
    ("cell", "width", "lines"),
    [
        ("short", 12, ["short"]),
        ("a-very-long-name-17", 12, ["a-very…me-17"]),
        ("run-20261125-of-many", 12, ["run-…-many"]),
        ("cores=4 memory=8Gi", 12, ["cores=4", "memory=8Gi"]),
        ("one two three four five six seven eight nine", 9, ["one two", "three", "four five", "six…"]),
        ("日本語のとても長い名前です", 12, ["日本語…です"]),
    ],
)
def test_a_cell_is_broken_at_blanks_and_cut_in_the_middle_outside_of_numbers(cell, width, lines):
    assert cell_lines(cell, width) == lines


class _Asked:
    """A head that answers with these workers."""

    def __init__(self, *workers):
        self._workers = list(workers)

    async def ask(self, question, kind):
        return kind(question.ask, self._workers)


def _workers(*stored):
    return [WorkerRow(f"n{n}", "cores=[0]", [], n, 0, 1, 0.5, stored=size) for n, size in enumerate(stored)]


@pytest.mark.parametrize("data", ["tcp://10.0.0.7:4711", ""])
@pytest.mark.anyio
async def test_data_servers_are_listed_where_there_are_some(capsys, data) -> None:
    await list_workers(_Asked(WorkerRow("n1", "cores=[0]", [], 1, 0, 1, 0.5, data=data), *_workers(0)), as_json=False)
    out = capsys.readouterr().out
    assert ("data" in out) == bool(data)
    assert data in out


@pytest.mark.parametrize(("stored", "shown"), [((0, 3 << 20), "3Mi"), ((0, 0), "")])
@pytest.mark.anyio
async def test_bytes_of_values_are_listed_where_there_are_some(capsys, stored, shown) -> None:
    await list_workers(_Asked(*_workers(*stored)), as_json=False)
    out = capsys.readouterr().out
    assert ("stored" in out) == bool(shown)
    assert shown in out


@pytest.mark.parametrize("why", ["no value is written to /scratch any more: No space left on device", ""])
@pytest.mark.anyio
async def test_a_disk_that_is_given_up_is_named_below_the_list(capsys, why) -> None:
    here = WorkerRow("n1", "cores=[0]", [], 1, 0, 1, 0.5, scratch_lost=why)
    await list_workers(_Asked(here, *_workers(0)), as_json=False)
    below = [line for line in capsys.readouterr().out.splitlines() if line.startswith("n1:")]
    assert below == ([f"n1: {why}"] if why else [])
