"""Logs of heads in the background: each its own, bounded, and of no use to other users."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from limits import LIMIT_S

from grainlike.cli.heads import _log
from grainlike.cli.heads._detached import _reasons
from grainlike.cli.heads._log import open_log

ROOT = Path(__file__).parents[3]
NOBODY = 65534


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "grainlike"


def opened():
    handle, path = open_log()
    os.close(handle)
    return path


def free(path):
    """Whether nobody writes to a log any more."""
    with path.open("rb") as file:
        return _log._lock(file.fileno())


def test_each_head_has_a_log_of_its_own_for_its_user_alone(state):
    paths = [opened() for _ in range(3)]
    assert len(set(paths)) == 3
    assert {path.parent for path in paths} == {state / "logs"}
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (state, state / "logs")} == {0o700}


def test_old_logs_go_with_what_was_put_aside_and_those_in_use_stay(state, monkeypatch):
    monkeypatch.setattr(_log, "LOGS", 2)
    logs = state / "logs"
    logs.mkdir(parents=True, mode=0o700)
    state.chmod(0o700)
    for year in (2001, 2002, 2003):
        (logs / f"head-{year}0101-000000-aaaa.log").touch()
    (logs / "head-20010101-000000-aaaa.log.1").touch()
    used = os.open(logs / "head-20020101-000000-aaaa.log", os.O_RDONLY)
    _log._lock(used)
    path = opened()
    os.close(used)
    left = sorted(one.name for one in logs.iterdir())
    assert left == ["head-20020101-000000-aaaa.log", "head-20030101-000000-aaaa.log", path.name]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to another user")
def test_the_state_directory_of_another_user_gets_no_log(state):
    state.mkdir(parents=True, mode=0o700)
    os.chown(state, NOBODY, NOBODY)
    with pytest.raises(PermissionError, match="belongs to user id"):
        open_log()
    assert list(state.iterdir()) == []


def read(path):
    """The text of a log, which is away for a moment while it is put aside."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


@pytest.mark.parametrize("longest", [2000, 1_000_000])
def test_a_long_log_is_put_aside_and_standard_error_follows(longest):
    handle, path = open_log()
    program = (
        f"import logging, pathlib, sys; from grainlike.cli.heads import _log; _log.LONGEST = {longest}\n"
        "logging.basicConfig(level='INFO', handlers=[_log.HeadLog(pathlib.Path(sys.argv[1]))])\n"
        "for number in range(100): logging.info('line %d %s', number, 'x' * 80)\n"
        "print('from standard error', file=sys.stderr, flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program, str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=handle, stderr=handle, env=environment) as process:
        os.close(handle)
        while "from standard error" not in read(path):
            assert process.poll() is None
        assert not free(path)  # it is in use
        process.communicate(timeout=LIMIT_S)
    assert free(path)
    files = sorted(path.parent.iterdir())
    assert [one.name.removeprefix(path.name) for one in files] == ["", ".1", ".2", ".3"][: 4 if longest == 2000 else 1]
    assert all(one.stat().st_size <= longest + 200 and one.stat().st_mode & 0o777 == 0o600 for one in files)
    assert path.read_text().endswith("from standard error\n")
    assert "line 99" in path.read_text()


def test_of_a_head_that_did_not_start_the_last_lines_are_told_without_its_progress(tmp_path):
    log = tmp_path / "head.log"
    assert _reasons(log) == []
    at = "2026-11-25 09:00:00,123 grainlike"
    lines = [
        f"{at} INFO began",
        f"{at} WARNING the journal is long",
        "",
        f"{at}.net DEBUG dialled",
        "grainlike head: no",
    ]
    log.write_text("\n".join(lines))
    assert _reasons(log) == [lines[1], lines[-1]]
    log.write_text("\n".join(f"line {n} {'x' * 100}" for n in range(1000)))
    assert [line.split()[1] for line in _reasons(log)] == [str(n) for n in range(988, 1000)]
