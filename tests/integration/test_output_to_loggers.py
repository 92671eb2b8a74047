"""`connect(echo=logger)`: what a program's jobs print goes to a logger of the program, with the jobs' names."""

import asyncio
import logging
import os
import sys

import pytest
from limits import LIMIT_S
from waiting import until

from grainlike import GVAR, Cores, Executor, Retry, connect, delayed, gather, start
from grainlike.client import HeadClient, _output_to_logger

pytestmark = pytest.mark.asyncio


def a_head(cores):
    return Executor(local=Cores(cores), listen="tcp://127.0.0.1:0")


@pytest.fixture(autouse=True)
def private_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def logger(caplog):
    caplog.set_level(logging.INFO, "app")
    return logging.getLogger("app.jobs")


def told(caplog, name="app.jobs"):
    """What the logger was given, by job, in the order of each."""
    found = [record for record in caplog.records if record.name == name]
    return sorted((r.job_name, r.job, r.worker, r.attempt, r.stream, r.getMessage()) for r in found)


@delayed
def says(value):
    print("said", value)
    print("err", value, file=sys.stderr)
    logging.getLogger("app.model").info("logged %s", value)
    return value


@delayed(retries=Retry(1))
def fails_once():
    print("attempt", GVAR.job.attempt)
    if GVAR.job.attempt == 1:
        raise ValueError("once")


@delayed
async def asks(value):
    print("asking")
    return await (says @ Cores(1))(value)


@delayed
def waits_for(path):
    print("here")
    sys.stdout.flush()
    path.open().close()


async def test_each_line_comes_once_with_the_name_of_its_job(caplog, logger):
    async with asyncio.timeout(LIMIT_S), a_head(2) as head, connect(head.address, echo=logger):
        await gather((says @ Cores(1))(n) for n in range(3))
        await (fails_once @ Cores(1))()
        assert await (asks @ Cores(1))(7) == 7
    found = told(caplog)
    assert [(row[0], *row[2:]) for row in found] == [
        ("asks", "local", 1, "stdout", "asking"),
        ("fails_once", "local", 1, "stdout", "attempt 1"),
        ("fails_once", "local", 2, "stdout", "attempt 2"),
        *[("says", "local", 1, *what) for n in range(3) for what in (("stderr", f"err {n}"), ("stdout", f"said {n}"))],
    ]
    assert len({row[1] for row in found}) == 5
    assert sorted(row.getMessage() for row in caplog.records if row.name == "app.model") == [
        f"logged {n}" for n in (0, 1, 2, 7)
    ]


async def test_lines_come_while_the_job_runs(caplog, logger, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    async with asyncio.timeout(LIMIT_S), a_head(1) as head, connect(head.address, echo=logger):
        r_ = start((waits_for @ Cores(1))(tmp_path / "pipe"))
        await until(lambda: told(caplog))
        assert told(caplog)[0][-1] == "here"
        (await asyncio.to_thread((tmp_path / "pipe").open, "w")).close()
        await r_


async def test_more_jobs_than_are_followed_at_a_time_are_all_heard(caplog, logger, monkeypatch):
    monkeypatch.setattr(_output_to_logger, "_FOLLOWED", 2)
    monkeypatch.setattr(_output_to_logger, "_LAST_S", LIMIT_S)
    async with asyncio.timeout(LIMIT_S), a_head(2) as head, connect(head.address, echo=logger):
        await gather((says @ Cores(1))(n) for n in range(20))
    assert sorted(row[-1] for row in told(caplog) if row[4] == "stdout") == sorted(f"said {n}" for n in range(20))


async def test_a_handler_that_raises_ends_nothing(logger, monkeypatch, capsys):
    class Raises(logging.Handler):
        def emit(self, record):
            raise SystemExit("no handler")

    handler = Raises()
    logger.addHandler(handler)
    try:
        async with asyncio.timeout(LIMIT_S), a_head(1) as head, connect(head.address, echo=logger):
            assert await (says @ Cores(1))(1) == 1
            assert await (says @ Cores(1))(2) == 2
    finally:
        logger.removeHandler(handler)


async def test_nothing_is_asked_for_where_the_logger_takes_no_lines(caplog, logger, monkeypatch):
    asked = []
    monkeypatch.setattr(HeadClient, "logs", lambda *_, **__: asked.append(None))
    logger.setLevel(logging.WARNING)
    try:
        async with asyncio.timeout(LIMIT_S), a_head(1) as head, connect(head.address, echo=logger):
            assert await (says @ Cores(1))(1) == 1
    finally:
        logger.setLevel(logging.NOTSET)
    assert asked == []


@pytest.mark.parametrize("echo", [True, 0, "app.jobs"])
async def test_what_is_no_logger_is_refused_with_what_to_give(echo):
    with pytest.raises(TypeError, match=r"echo is a logger, as logging\.getLogger\('app\.jobs'\).*, or False"):
        connect(echo=echo)
