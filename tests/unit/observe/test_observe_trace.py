"""Traces, as their viewers read them."""

import json

from grainlike.observe import Stretch, trace


def read(*stretches: Stretch) -> tuple[list[dict], dict[tuple[int, int], str]]:
    """The bars, and what the rows are called."""
    events = json.loads(trace(stretches))["traceEvents"]
    rows = {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == "thread_name"}
    return [one for one in events if one["ph"] == "X"], rows


def test_bars_are_in_microseconds_since_the_first_begin() -> None:
    bars, _ = read(Stretch("b", "n1", (0,), 11.5, 12.0), Stretch("a", "n1", (0,), 10.0, 11.5, {"attempt": 1}))
    assert [(bar["name"], bar["ts"], bar["dur"]) for bar in bars] == [("a", 0, 1.5e6), ("b", 1.5e6, 0.5e6)]
    assert bars[0]["args"] == {"attempt": 1}


def test_a_wide_job_has_a_bar_on_each_core_of_its_worker() -> None:
    bars, rows = read(Stretch("a", "n1", (3, 4), 0.0, 1.0), Stretch("a", "n2", (3,), 0.0, 1.0))
    assert [(bar["pid"], bar["tid"]) for bar in bars] == [(1, 3), (1, 4), (2, 3)]
    assert rows == {(1, 3): "core 3", (1, 4): "core 4", (2, 3): "core 3"}


def test_workers_are_named() -> None:
    events = json.loads(trace([Stretch("a", "left", (0,), 0.0, 1.0)]))["traceEvents"]
    assert [one["args"]["name"] for one in events if one["name"] == "process_name"] == ["left"]


def test_jobs_without_cores_never_overlap_in_a_row() -> None:
    bars, rows = read(*[Stretch("a", "n1", (), begin, begin + 2.0) for begin in (0.0, 1.0, 2.0)])
    assert [rows[bar["pid"], bar["tid"]] for bar in bars] == ["no cores 1", "no cores 2", "no cores 1"]


def test_nothing_is_a_trace_too() -> None:
    assert read() == ([], {})


def test_a_job_with_devices_has_a_bar_on_each_of_them_too() -> None:
    bars, rows = read(Stretch("a", "n1", (3,), 0.0, 1.0, gpus=(0, 1)), Stretch("b", "n1", (), 0.0, 1.0, gpus=(2,)))
    assert [(bar["name"], rows[bar["pid"], bar["tid"]]) for bar in bars] == [
        ("a", "core 3"),
        ("a", "GPU 0"),
        ("a", "GPU 1"),
        ("b", "GPU 2"),
    ]
