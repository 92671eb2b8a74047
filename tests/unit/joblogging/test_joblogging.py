"""Records of `logging` as plain data, the levels that they must reach, and how many may pass."""

import logging
import math

import msgspec
import pytest

from grainlike.context import JobInfo
from grainlike.joblogging import (
    JobLogging,
    Rate,
    RateGate,
    levels_of,
    line_of,
    pack_dropped,
    pack_record,
    unpack,
)
from grainlike.joblogging._entry import RESERVED, record_of
from grainlike.joblogging._levels import LogLevels, ProgramLevels

JOB = JobInfo(7, "fit", 2, None)


def made(message="said %s", args=("so",), **more):
    return logging.LogRecord("app.model", logging.WARNING, "/a/b/model.py", 12, message, args, None, "fit", **more)


def entry(**changed):
    return msgspec.structs.replace(unpack(pack_record(made(), JOB)), **changed)


# --- levels ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def logger():
    logger = logging.getLogger("levels.of.this.test")
    yield logger
    logger.setLevel(logging.NOTSET)
    logging.disable(logging.NOTSET)


def test_levels_are_as_logging_has_them(logger):
    logger.setLevel(logging.ERROR)
    below, beside = logger.getChild("below"), logging.getLogger("levels.of")
    levels = levels_of(ProgramLevels().read())
    for one in (logger, below, beside, logging.root):
        assert levels.effective(one.name) == one.getEffectiveLevel()
        for level in (logging.DEBUG, logging.WARNING, logging.ERROR):
            assert levels.allows(one.name, level) == one.isEnabledFor(level)
    assert levels.effective("levels.of.this.testament") == logging.root.getEffectiveLevel()
    logging.disable(logging.ERROR)
    levels = levels_of(ProgramLevels().read())
    assert not levels.allows(logger.name, logging.ERROR)
    assert levels.allows(logger.name, logging.CRITICAL)


def test_a_change_of_a_level_is_noticed_without_a_call(logger):
    levels = ProgramLevels()
    before = levels.read()
    assert levels.unchanged in levels.cache
    for change in (lambda: logger.setLevel(logging.DEBUG), lambda: logging.disable(logging.INFO)):
        change()
        assert levels.unchanged not in levels.cache
        assert levels.read() != before
        before = levels.packed
        assert levels.unchanged in levels.cache


def test_levels_of_many_loggers_are_bounded():
    names = [f"many.of.this.test.{number}" for number in range(600)]
    for name in names:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        levels = levels_of(ProgramLevels().read())
    finally:
        for name in names:
            logging.getLogger(name).setLevel(logging.NOTSET)
    assert len(levels.names()) == 500
    assert levels.effective("root") == levels.effective("") == logging.root.level


def test_a_level_that_a_logger_has_anyway_does_not_travel(logger):
    before = ProgramLevels().read()
    logger.setLevel(logger.getEffectiveLevel())
    assert ProgramLevels().read() == before
    logger.getChild("below").setLevel(logging.DEBUG)
    logger.setLevel(logging.DEBUG)
    try:
        assert set(levels_of(ProgramLevels().read()).names()) >= {logger.name}
        assert logger.getChild("below").name not in levels_of(ProgramLevels().read()).names()
    finally:
        logger.getChild("below").setLevel(logging.NOTSET)


def test_a_program_that_changes_levels_all_the_time_sends_few_of_them(logger):
    levels = ProgramLevels()
    sent = set()
    for level in range(1, 200):
        logger.setLevel(level)
        child = logger.getChild(str(level))
        child.setLevel(1000 - level)
        sent.add(levels.read())
        assert levels_of(levels.packed).allows(logger.name, level)
        child.setLevel(logging.NOTSET)
    assert len(sent) <= 100 + 31, "of each lowest level one"
    logger.setLevel(1)
    logger.getChild("1").setLevel(999)
    assert levels_of(levels.read()).effective(logger.name + ".1") == 999, "levels that were sent before still are"
    logger.getChild("1").setLevel(logging.NOTSET)


def test_levels_that_are_damaged_are_the_defaults_of_logging():
    levels = levels_of(b"\xff\xff")
    assert levels.allows("any", logging.WARNING)
    assert not levels.allows("any", logging.INFO)
    assert levels_of(b"") is None


def test_the_lowest_of_two_lets_pass_what_either_does():
    one = LogLevels(logging.INFO, {"": logging.WARNING, "a": logging.DEBUG})
    other = LogLevels(0, {"": logging.ERROR, "a.b": logging.CRITICAL, "c": logging.INFO})
    lowest = one.lowest(other)
    assert [lowest.effective(name) for name in ("", "a", "a.b", "c", "d")] == [30, 10, 10, 20, 30]
    assert lowest.disable == 0


# --- one record ------------------------------------------------------------------------------------------------------


def test_a_record_comes_out_as_it_went_in():
    record = made()
    back = record_of(unpack(pack_record(record, JOB)), "n1")
    for name in RESERVED - {
        "args",
        "msg",
        "asctime",
        "getMessage",
        "message",
        "taskName",
        "job",
        "job_name",
        "worker",
        "attempt",
    }:
        assert getattr(back, name) == pytest.approx(getattr(record, name)), name
    assert (back.job, back.job_name, back.worker, back.attempt) == (7, "fit", "n1", 2)
    assert back.getMessage() == "said so"
    assert back.getMessage() == record.getMessage()


def test_extra_attributes_of_plain_types_are_kept_and_others_are_text():
    record = made()
    record.plain, record.nested, record.big, record.worker = 1.5, {"a": [1, (True, None)]}, 2**70, "forged"
    record.deep = [[[[1]]]]
    record.odd = ValueError("odd")
    back = record_of(unpack(pack_record(record, JOB)), "n1")
    assert (back.plain, back.nested, back.big) == (1.5, {"a": [1, [True, None]]}, str(2**70))
    assert (back.deep, back.odd, back.worker) == ([[["[1]"]]], "odd", "n1")


def test_a_record_cannot_take_the_place_of_what_every_record_has():
    forged = msgspec.msgpack.encode(
        entry(extra={"levelno": 99, "job": 1, "mine": 2, "message": "forged", "getMessage": 3})
    )
    back = record_of(unpack(forged), "n1")
    assert (back.levelno, back.job, back.mine) == (logging.WARNING, 7, 2)
    assert back.getMessage() == "said so"
    assert not hasattr(back, "message")


def test_its_size_is_bounded_whatever_is_in_it():
    record = made("%s", ("x" * 10**6,))
    for number in range(1000):
        setattr(record, f"extra{number}", ["y" * 10**4] * 10)
    record.exc_text, record.stack_info = "z" * 10**6, "s" * 10**6
    assert len(pack_record(record, JOB)) < 512 * 1024


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode([1, 2, 3]),
        msgspec.msgpack.encode({"job": 1}),
        msgspec.msgpack.encode(entry(created=math.nan)),
        msgspec.msgpack.encode(entry(created=1e300)),
        msgspec.msgpack.encode(entry(level=10**9)),
        msgspec.msgpack.encode(entry(level=-1)),
        msgspec.msgpack.encode(entry(dropped=-1)),
        msgspec.msgpack.encode(entry()).replace(b"said so", b"said \xff\xff"),
    ],
)
def test_what_is_no_record_is_passed_over_and_told_once(packed, caplog):
    assert unpack(packed) is None
    logs = JobLogging()
    logs.take("n1", [packed, packed])
    assert [record.getMessage() for record in caplog.records] == [
        "worker n1 sent records of logging that are none; they are passed over"
    ]


def test_a_line_of_it_is_as_basic_config_writes_it():
    assert line_of(entry(error="Traceback\nValueError", stack="Stack")) == (
        "WARNING:app.model:said so\nTraceback\nValueError\nStack"
    )


def test_names_that_come_from_jobs_make_no_loggers(caplog):
    JobLogging().take("n1", [msgspec.msgpack.encode(entry(name="made.up.by.a.job"))])
    assert "made.up.by.a.job" not in logging.root.manager.loggerDict
    assert [record.name for record in caplog.records] == ["made.up.by.a.job"]


def test_dropped_records_are_told_with_their_job(caplog):
    JobLogging().take("n1", [pack_dropped(7, "fit", 2, 1234)])
    (record,) = caplog.records
    assert record.getMessage() == (
        "1,234 records of job 7, fit, on worker n1 were dropped: it logs faster than they are passed on"
    )
    assert (record.job, record.job_name, record.worker, record.attempt) == (7, "fit", "n1", 2)


# --- rates -----------------------------------------------------------------------------------------------------------


def test_so_many_pass_at_once_and_then_so_many_a_second():
    gate = RateGate(Rate(10, 1000, 2))
    assert [gate.allows(1, 5.0) for _ in range(21)] == [True] * 20 + [False]
    assert [gate.allows(1, 5.5) for _ in range(6)] == [True] * 5 + [False]
    assert sum(gate.allows(1, 1000.0) for _ in range(100)) == 20, "no more than at once, however long ago"


def test_bytes_are_bounded_too():
    gate = RateGate(Rate(10, 1000, 2))
    assert not gate.allows(2001, 0.0)
    assert gate.allows(2000, 0.0)
    assert not gate.allows(0, 0.0), "none are left"
    assert gate.allows(0, 0.1)
    assert gate.charges(100)
    assert not gate.charges(1)
