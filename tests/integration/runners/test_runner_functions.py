"""A run-list whose jobs call several functions, in a runner process: what is one function's is no other's."""

import importlib
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from raw_runner import TERMINATED, Gate, Runner, by_value, quick

from grainlike.payload import _names, dump_function
from grainlike.wire import Code, Define, FunctionSpec, Stop
from grainlike_worker.ipc._claims import ClaimPage


class Loading:
    """Something in a function that runs these lines when it is loaded."""

    def __init__(self, lines: str) -> None:
        self._lines = lines

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (self._lines,)


def loads(lines: str) -> Callable[..., object]:
    """Return a function that runs these lines when it is loaded."""
    held = Loading(lines)

    def function() -> str:
        return f"loaded {held}"

    return by_value(function)


def at_gate(gate: Gate) -> Callable[..., object]:
    return loads(f"open({gate.begun!r}, 'w').write('begun')\nopen({gate.go!r}).read()")


def test_what_has_ended_is_told_before_the_next_function_is_loaded_and_none_is_timed(
    gate: Gate, claims: ClaimPage
) -> None:
    with Runner(quick, at_gate(gate), claims=claims) as runner:
        runner.run({1: (0, ()), 2: (1, ()), 3: (0, ()), 4: (1, ())}, limit=100.0)
        gate.wait()
        runner.until(1)
        assert (claims.started, claims.since) == (1, 0), "it is claimed, and has not begun"
        assert runner.codes == {1: Code.SUCCEEDED}
        gate.open()
        runner.until(2, 3, 4)
    assert runner.values == {1: "quick", 2: "loaded None", 3: "quick", 4: "loaded None"}


def test_those_that_differ_in_their_options_alone_are_as_one_function() -> None:
    def leaves() -> str | None:
        found, os.environ["LEFT"] = os.environ.get("LEFT"), "here"
        return found

    function = by_value(leaves)
    with Runner(function, function, quick) as runner:
        runner.run({1: (0, ()), 2: (1, ()), 3: (0, ()), 4: (2, ()), 5: (1, ())})
        runner.until(1, 2, 3, 4, 5)
    assert runner.values == {1: None, 2: "here", 3: "here", 4: "quick", 5: None}


def test_one_that_ends_the_process_takes_no_outcome_of_another_function_with_it(claims: ClaimPage) -> None:
    def ends(really: bool) -> None:
        import os

        if really:
            os._exit(7)

    with Runner(quick, by_value(ends), by_value(keep_outcomes), claims=claims) as runner:
        runner.call(0)
        runner.run({1: (1, (False,)), 2: (2, ())})
        runner.until(1, 2)
        runner.run({3: (0, ()), 4: (0, ()), 5: (1, (True,)), 6: (0, ())})
        assert runner.until_end() == 7
    assert [job for job in runner.codes if job > 2] == [3, 4]
    assert claims.started == 2


def test_a_function_that_ends_the_process_when_it_is_loaded_is_the_suspect(claims: ClaimPage) -> None:
    with Runner(quick, loads("import os; os._exit(7)"), claims=claims) as runner:
        runner.run({1: (0, ()), 2: (1, ()), 3: (0, ())})
        assert runner.until_end() == 7
    assert runner.codes == {1: Code.SUCCEEDED}
    assert claims.started == 1


def test_one_that_was_told_to_end_while_it_loaded_a_function_begins_nothing_more(gate: Gate, claims: ClaimPage) -> None:
    with Runner(quick, at_gate(gate), claims=claims) as runner:
        runner.run({1: (0, ()), 2: (1, ()), 3: (0, ())})
        gate.wait()
        runner.process.send_signal(signal.SIGTERM)
        gate.open()
        assert runner.until_end() == TERMINATED
    assert runner.codes == {1: Code.SUCCEEDED, 2: Code.RETURNED, 3: Code.RETURNED}


def test_one_that_cannot_be_loaded_fails_its_own_jobs_alone() -> None:
    with Runner(quick, loads("raise OSError('boom')")) as runner:
        runner.run({1: (0, ()), 2: (1, ()), 3: (0, ()), 4: (1, ())})
        runner.until(1, 2, 3, 4)
    assert [runner.codes[job] for job in (1, 2, 3, 4)] == [Code.SUCCEEDED, Code.FAILED] * 2


@pytest.fixture
def records() -> Iterator[int]:
    """The end of a pipe for records of `logging`."""
    near, far = os.pipe()
    yield far
    os.close(near)
    os.close(far)


def test_each_function_has_the_levels_of_its_program(records: int) -> None:
    def level() -> int:
        import logging

        return logging.getLogger("app").getEffectiveLevel()

    blob = dump_function(by_value(level))
    packed = [msgspec.msgpack.encode((0, {"": level})) for level in (logging.DEBUG, logging.ERROR)]
    specs = [FunctionSpec(fn, blob.digest, f"f{fn}", False, None, logs=logs) for fn, logs in enumerate(packed)]
    with Runner(records=records) as runner:
        runner.send(Define(specs, []), [blob.data, blob.data])
        runner.run({1: (0, ()), 2: (1, ()), 3: (0, ()), 4: (0, ())})
        runner.run({5: (1, ()), 6: (0, ())})
        runner.until(*range(1, 7))
    names = {logging.DEBUG: "debug", logging.ERROR: "error"}
    assert [names[runner.values[job]] for job in range(1, 7)] == ["debug", "error", "debug", "debug", "error", "debug"]


def test_each_function_finds_the_process_as_the_first_one_does(tmp_path: Path) -> None:
    def leaves(directory: str) -> None:
        import os

        os.chdir(directory)
        os.environ["GRAINLIKE_TEST_LEFT"] = "1"

    def finds() -> tuple[str, str | None]:
        import os
        from pathlib import Path

        return str(Path.cwd()), os.environ.get("GRAINLIKE_TEST_LEFT")

    with Runner(by_value(leaves), by_value(finds)) as runner:
        before = runner.call(1)
        runner.run(
            {1: (0, (str(tmp_path),)), 2: (1, ()), 3: (0, (str(tmp_path),)), 4: (0, (str(tmp_path),)), 5: (1, ())}
        )
        runner.until(1, 2, 3, 4, 5)
    assert runner.values[2] == runner.values[5] == before == (str(Path.cwd()), None)


def test_it_does_so_behind_one_that_was_cancelled(gate: Gate) -> None:
    def leaves_at_gate(begun: str, go: str) -> None:
        import os
        from pathlib import Path

        os.environ["GRAINLIKE_TEST_LEFT"] = "1"
        Path(begun).write_text("begun")
        Path(go).read_text()

    def finds() -> str | None:
        import os

        return os.environ.get("GRAINLIKE_TEST_LEFT")

    with Runner(by_value(leaves_at_gate), by_value(finds)) as runner:
        runner.run({1: (0, gate.args), 2: (0, gate.args), 3: (1, ())})
        gate.wait()
        runner.send(Stop([2]))
        gate.open()
        runner.until(1, 2, 3)
    assert runner.codes == {1: Code.SUCCEEDED, 2: Code.CANCELLED, 3: Code.SUCCEEDED}
    assert runner.values[3] is None


def test_one_that_leaves_a_process_behind_has_the_next_function_run_in_another() -> None:
    def leaves_child() -> None:
        import subprocess

        subprocess.Popen(["sleep", "1000"])

    with Runner(by_value(leaves_child), quick) as runner:
        runner.run({1: (0, ()), 2: (1, ()), 3: (0, ())})
        runner.until_end()
    assert runner.codes == {1: Code.SUCCEEDED, 2: Code.RETURNED, 3: Code.RETURNED}
    assert runner.renews


def test_each_function_has_a_peak_of_memory_of_its_own() -> None:
    def takes() -> int:
        return len(bytearray(b"1") * 100_000_000)

    with Runner(by_value(takes), quick, by_value(keep_outcomes)) as runner:
        runner.call(2)
        runner.run({1: (1, ()), 2: (1, ()), 3: (0, ()), 4: (1, ()), 5: (0, ())})
        runner.until(1, 2, 3, 4, 5)
    peaks = {job: rss for batch in runner.batches for job, rss in zip(batch.jobs, batch.rss, strict=True)}
    assert peaks[1] == peaks[2] < peaks[3] - 90_000_000
    assert peaks[4] < peaks[3] - 90_000_000
    assert peaks[5] >= peaks[4] + 90_000_000


def keep_outcomes() -> None:
    """Let the outcomes of later leases wait for their ends."""
    from grainlike_worker.runner.common import _outcomes

    _outcomes.FLUSH_S = 3600.0


def test_a_batch_that_says_that_its_job_has_awaited_has_no_others() -> None:
    def asks() -> None:
        """Do what the executor inside a job does first."""
        import asyncio

        from grainlike.context import this_process
        from grainlike_worker.runner.common._uplink import WatchedUplink

        class Nesting:
            def close(self) -> None:
                pass

        async def attach() -> None:
            view = this_process.view
            assert isinstance(view.uplink, WatchedUplink)
            assert view.job is not None
            view.uplink.attach(view.job.id, Nesting())  # type: ignore[arg-type]

        asyncio.run(attach())

    with Runner(quick, by_value(asks), by_value(keep_outcomes)) as runner:
        runner.call(2)
        runner.call(1)  # it is loaded: else the outcomes in front of it would be told before that
        runner.run({1: (0, ()), 2: (0, ()), 3: (1, ()), 4: (0, ()), 5: (1, ())})
        runner.until(1, 2, 3, 4, 5)
    told = {job: batch.awaited for batch in runner.batches for job in batch.jobs if job}
    assert told == {1: False, 2: False, 3: True, 4: True, 5: True}
    assert [runner.codes[job] for job in (3, 4, 5)] == [Code.SUCCEEDED, Code.RETURNED, Code.RETURNED]


def test_a_process_with_old_code_of_one_of_them_begins_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def imports() -> None:
        import importlib

        importlib.import_module("edited_between")

    file = tmp_path / "edited_between.py"
    file.write_text("def plain():\n    return 'old'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(_names, "_MOST", 100_000)  # where all tests run, this process has imported more modules
    with Runner(quick, by_value(imports), paths=[str(tmp_path)]) as runner:
        runner.call(0)
        runner.call(1)
        file.write_text("def plain():\n    return 'new code'\n")
        blob = dump_function(importlib.import_module("edited_between").plain)
        runner.send(Define([FunctionSpec(2, blob.digest, "plain", False, None)], []), [blob.data])
        runner.run({1: (0, ()), 2: (2, ())})
        while runner.receive() and not runner.renews and not {1, 2} & runner.codes.keys():
            pass
    assert runner.renews
    assert not {1, 2} & runner.codes.keys(), "another process begins all of it"
