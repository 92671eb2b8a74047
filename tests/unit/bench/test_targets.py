"""The table of targets: every row is measured, and what is said of it follows from its figures. Nothing is timed."""

import shutil
import socket
import subprocess
from collections import Counter
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from grainlike_bench import bench_broadcast
from grainlike_bench.bench_broadcast import Broadcast, Sent
from grainlike_bench.bench_spread import LINK, LINKS, VALUE, Way, _program
from grainlike_bench.bench_trees import Runs, needed_again
from grainlike_bench.compare import SYSTEMS, WORKLOADS, Figures
from grainlike_bench.targets import main
from grainlike_bench.targets._goals import GOALS, Bound, Goal, chosen
from grainlike_bench.targets._parts import PARTS, Part, spread_rows
from grainlike_bench.targets._report import BEGIN, END, markdown, rewrite, text
from grainlike_bench.targets._run import Run, run
from grainlike_bench.targets._systems import ROWS, Row, figures_of, needed

GOAL = {goal.row: goal for goal in GOALS}
PAGE = Path(__file__).parents[3] / "docs" / "performance.md"
FOUND = {"w1-pool": [4.0, 6.0, 9.0], "idle-head": [0.5], "w3-ray": [0.5], "w3-ray-others": [2.0], "w2-pool": [1.8]}


def test_every_row_has_one_measurement() -> None:
    measured = Counter([*ROWS, *(row for part in PARTS.values() for row in part.rows)])
    beside = {goal.also[1] for goal in GOALS if goal.also is not None}
    assert len(GOAL) == len(GOALS)
    assert set(measured) | {"sweep-pool", "million-cpu"} == set(GOAL) | beside
    assert set(measured.values()) == {1}


def test_rows_name_systems_and_figures_that_there_are() -> None:
    figures = {figure for workload in WORKLOADS.values() for figure in workload.units}
    for row in ROWS.values():
        assert row.systems <= SYSTEMS.keys()
        assert row.figures <= figures


@pytest.mark.parametrize(
    ("row", "value", "also", "verdict"),
    [
        ("w1-pool", 10.0, None, "met"),
        ("w1-pool", 5.0, None, "at the least"),
        ("w1-pool", 4.9, None, "missed"),
        ("w1-ray", 39.0, None, "missed"),
        ("w2-pool", 1.0, None, "met"),
        ("w2-pool", 1.5, None, "at the least"),
        ("w2-pool", 1.6, None, "missed"),
        ("w3-ray", 1.1, 0.5, "met"),
        ("w3-ray", 0.9, 1.0, "at the least"),
        ("w3-ray", 0.9, 0.9, "missed"),
        ("w3-ray", 0.9, None, "missed"),
        ("w3b-ray", 0.8, 3.0, "at the least"),
        ("w3b-ray", 0.7, 3.0, "missed"),
        ("scheduler", 4.9, None, "met"),
        ("scheduler", 5.0, None, "at the least"),
        ("scheduler", 10.0, None, "missed"),
        ("sweep", 1.85, 1.0, "at the least"),
        ("sweep", 1.75, 1.95, "missed"),
        ("idle-head", None, None, "not measured"),
    ],
)
def test_the_verdict_follows_from_the_figures(row, value, also, verdict) -> None:
    assert GOAL[row].verdict(value, also) == verdict


def test_ratios_are_taken_within_a_round_and_to_the_best_of_several() -> None:
    found = {
        "grainlike": Figures("grainlike", {"bulk": [10.0, 30.0]}),
        "pool": Figures("pool", {"bulk": [5.0, 5.0]}),
        "loky": Figures("loky", {"bulk": [2.0, 10.0]}),
        "dask": Figures("dask", failure="gone"),
    }
    several = Row(("grainlike", "bulk"), (("pool", "bulk"), ("loky", "bulk"), ("dask", "bulk"), ("ray", "bulk")))
    assert figures_of(several, found) == [2.0, 3.0]
    assert figures_of(Row(("grainlike", "bulk")), found) == [10.0, 30.0]
    assert figures_of(Row(("grainlike", "bulk"), (("dask", "bulk"),)), found) == []
    assert figures_of(Row(("ray", "bulk"), (("pool", "bulk"),)), found) == []


def test_rows_say_what_has_to_run_for_them() -> None:
    systems, sizes = needed([ROWS["w2-hops"], ROWS["w1-ray"]], lambda name: name != "ray")
    assert systems == ["hops-uvloop", "grainlike-far-insecure"]
    assert sizes == {name: WORKLOADS[name].size for name in ("throughput", "trips")}


def test_rows_are_chosen_by_name_or_its_first_part() -> None:
    assert [goal.row for goal in chosen(["w1b"])] == ["w1b"]
    assert {goal.row for goal in chosen(["w1", "idle-head"])} == {
        "w1-pool",
        "w1-ray",
        "w1-dask",
        "w1-grain",
        "w1-limit",
        "w1-embedded",
        "idle-head",
    }
    assert chosen([]) == list(GOALS)
    with pytest.raises(ValueError, match="no row is named 'w'"):
        chosen(["w1", "w"])


def test_the_table_has_the_median_its_range_and_the_verdict() -> None:
    run = Run("2026-01-01", 3, "a machine", FOUND, failures={"ray": "gone"})
    goals = [GOAL[row] for row in ("w1-pool", "w3-ray", "w2-pool", "w6")]
    lines = text(goals, run).splitlines()
    assert lines[1].split("  ")[0] == "w1-pool"
    assert "6.00 x (4.00 - 9.00)" in lines[1]
    assert lines[1].endswith("at the least")
    assert "Ray; best of the other peers: 2.00 x" in lines[2]
    assert lines[2].endswith("≥ 1 the best of the other peers  at the least")
    assert lines[3].split()[-3:] == ["≤", "1.5", "missed"]
    assert lines[4].endswith("not measured")
    assert lines[6] == "4 rows: 2 at the least, 1 missed, 1 not measured"
    assert lines[7] == "Not measured: ray: gone"


def test_the_page_is_rewritten_between_its_marks_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    run = Run("2026-01-01", 3, "a machine", FOUND)
    rewrite(page, GOALS, run)
    assert page.read_text() == f"before\n{BEGIN}\n\n{markdown(GOALS, run)}\n\n{END}\nafter\n"
    page.write_text("no marks\n")
    with pytest.raises(ValueError, match="has no"):
        rewrite(page, GOALS, run)
    assert page.read_text() == "no marks\n"


def test_the_page_of_this_project_has_every_row() -> None:
    page = PAGE.read_text(encoding="utf-8")
    tables = page[page.index(BEGIN) : page.index(END)]
    assert [goal.row for goal in GOALS if f"| {goal.words} |" not in tables] == []


def test_a_missed_target_is_no_failure_and_a_wrong_word_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "run.json"
    Run("2026-01-01", 3, "a machine", {"w2-pool": [9.0]}).write(kept)
    assert main(["--only", "w2-pool", "--read", str(kept)]) == 0
    assert "missed" in capsys.readouterr().out
    assert main(["--only", "nonsense"]) == 2
    assert "no row is named 'nonsense'" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["--only", "w2-pool", "--read", str(kept), "--markdown", str(tmp_path / "page.md")])


def test_a_part_runs_in_a_process_of_its_own_and_one_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = Part(PARTS["queued"].measure, ("w1b",), 1, ("no_such_module",))
    monkeypatch.setitem(PARTS, "queued", lacking)
    monkeypatch.setitem(PARTS, "nonsense", Part(PARTS["queued"].measure, ("w1b",), 1))
    told: list[str] = []
    done = run([GOAL["w1b"]], 1, told.append)
    assert len(done.found["w1b"]) > 1
    assert told[0] == "queued: about 1 s"
    assert done.failures == {"no_such_module": "not installed", "nonsense": "KeyError: 'nonsense'"}


def test_a_bound_says_itself() -> None:
    assert str(Bound("≥", 50_000)) == "≥ 50,000"
    assert Goal("a", "b", "c", "x", Bound("<", 1)).verdict(1.0) == "missed"


def test_the_page_has_what_users_run_side_by_side_with_each_process() -> None:
    default = {
        "p50": [300.0, 500.0, 400.0],
        "trips: caller": [70.0],
        "trips: daemon": [1000.0],
        "trips: others": [50.0],
    }
    figures = {"grainlike-default": default, "grainlike-embedded": {"p50": [200.0], "trips: caller": [90.0]}}
    page = markdown([GOAL["w1b"]], Run("2026-01-01", 3, "a machine", FOUND, {"figures": figures}))
    assert "| | default | program | daemon | runners | `run()` | program | runners |" in page.replace("|  |", "| |")
    assert "| W2 p50, µs | 400 | 70 | 1,000 | 50 | 200 | 90 |" in page


def test_rows_of_large_values_are_ratios_to_the_value_and_to_the_peers_of_the_same_round() -> None:
    ours = {
        "fan": [Way(1.0, 0, VALUE // 100, 3_000_000), Way(4.0, 0, 0, 0)],
        "own array": [Way(1.0, 0, VALUE, 0)],
        "own value": [Way(1.0, 0, 2 * VALUE, 0)],
        "chain": [Way(1.0, LINK * LINKS // 2, 0, 0), Way(1.0, 0, 0, 0)],
    }
    dask = {"fan": [Way(2.0), Way(2.0)], "own array": [Way(1.0)], "chain": [Way(1.0), Way(1.0)]}
    found = spread_rows({"grainlike": ours, "dask": dask})
    assert found == {
        "spread-program": [0.01, 0.0],
        "spread-growth": [3.0, 0.0],
        "spread-array": [1.0],
        "spread-value": [2.0],
        "spread-chain-network": [0.5, 0.0],
        "spread-dask": [0.5, 2.0],
    }
    ray = {**dask, "chain": [Way(4.0), Way(0.5)]}
    assert set(spread_rows({"grainlike": ours, "dask": dask, "ray": ray})) == set(PARTS["spread"].rows)
    assert spread_rows({"grainlike": ours, "ray": ray})["spread-chain-ray"] == [0.25, 2.0]


def test_values_that_are_lost_and_needed_are_those_that_jobs_which_have_not_run_take_to_be_made() -> None:
    leaves = {(0, at): (at, "n0" if at < 8 else "n1") for at in range(17)}
    last = {**leaves, (1, 0): (100, "n0"), (1, 1): (101, "n1")}
    runs = Runs(Counter(last), last)
    whole = {(1, 1)}  # it lives elsewhere; the inputs of both sums were dropped
    found = needed_again(runs, lambda spot, _: spot in whole)
    assert found == {(1, 0), *((0, at) for at in range(8)), (0, 16)}
    assert needed_again(runs, lambda spot, _: spot[0] == 0 or spot in whole) == {(1, 0)}


def test_runs_are_counted_by_their_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("0 3 17 n0\n1 0 20 n1\n0 3 17 n2\n")
    assert Runs.read(log) == Runs(Counter({(0, 3): 2, (1, 0): 1}), {(0, 3): (17, "n2"), (1, 0): (20, "n1")})


def test_a_broadcast_is_beside_one_transfer() -> None:
    found = Broadcast(Sent(2.0, 100_200_000), Sent(7.0, 300_700_000))
    assert (found.copies, found.time) == (3.0, 3.5)


def test_a_broadcast_leaves_a_network_alone_that_others_use(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    def has_run(command: list[str], **_: object) -> CompletedProcess[str]:
        ran.append(command)
        return CompletedProcess(command, 0, "lo UNKNOWN 00:00\neth0@if7 UP 00:00\n", "")

    monkeypatch.setattr(subprocess, "run", has_run)
    with pytest.raises(RuntimeError, match="a network of its own"):
        bench_broadcast.measure()
    bench_broadcast.main()
    assert {command[0] for command in ran} == {"ip"}


@pytest.mark.skipif(shutil.which("ss") is None, reason="ss is not installed")
def test_the_kernel_counts_what_the_connections_of_a_program_carry() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as near:
        far, _ = server.accept()
        with far:
            before = _program()
            near.sendall(bytes(10_000))
            left = 10_000
            while left:
                left -= len(far.recv(left))
            assert _program() - before == 20_000  # both ends are of this program


def test_a_part_that_takes_a_network_of_its_own_says_what_is_missing_for_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run([GOAL["spread-array"]], 1, lambda _: None)
    assert done.failures["spread"] == "unshare is not installed"
    assert not done.found
