"""Records of `logging` as plain data, the levels that they must reach, and how many may pass."""

import asyncio
import logging
import math
import signal

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


class Level(int):
    """A level of a program's own type, which cannot be sent as it is."""


@pytest.mark.parametrize(
    ("level", "sent"),
    [(2**70, 2**31 - 1), (-(2**70), 1 - 2**31), (Level(20), 20), (True, 1), (12.5, 12), ("INFO", 0), (math.nan, 0)],
)
def test_any_level_of_a_logger_can_be_sent(logger, level, sent):
    logger.level = level
    assert levels_of(ProgramLevels().read())._levels[logger.name] == sent


@pytest.mark.parametrize(("level", "sent"), [(2**70, 2**31 - 1), (Level(20), 20)])
def test_any_level_can_be_disabled(logger, level, sent):
    logging.disable(level)
    assert levels_of(ProgramLevels().read()).disable == sent


def test_a_logger_whose_name_is_no_text_does_not_travel():
    logger = logging.getLogger("levels.of.\udcff")
    logger.setLevel(1)
    try:
        assert logger.name not in levels_of(ProgramLevels().read()).names()
    finally:
        logger.setLevel(logging.NOTSET)


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
        msgspec.msgpack.encode(entry(level=2**31)),
        msgspec.msgpack.encode(entry(level=-(2**31))),
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


@pytest.mark.parametrize(("level", "arrives"), [(5000, 5000), (2**70, 2**31 - 1), (Level(30), 30)])
def test_a_record_of_any_level_arrives_and_no_logger_remembers_it(caplog, level, arrives):
    record = made()
    record.levelno = level
    JobLogging().take("n1", [pack_record(record, JOB)])
    assert [record.levelno for record in caplog.records] == [arrives]
    assert arrives == 30 or arrives not in logging.root._cache


def test_a_level_that_is_remembered_by_no_logger_is_asked_for_as_others_are(caplog, logger):
    logger.setLevel(6000)
    packed = [msgspec.msgpack.encode(entry(name=logger.name, level=level)) for level in (5000, 6000, 7000)]
    JobLogging().take("n1", packed)
    logging.disable(6500)
    JobLogging().take("n1", packed)
    assert [record.levelno for record in caplog.records] == [6000, 7000, 7000]


# --- errors of the program's own code --------------------------------------------------------------------------------


def test_the_factory_of_the_program_makes_the_record_and_sees_what_it_is(caplog, monkeypatch):
    def factory(name, level, path, line, message, args, exc_info, function=None, stack=None, **more):
        record = logging.LogRecord(name, level, path, line, message, args, exc_info, function, stack, **more)
        record.seen = (name.rsplit(".")[-1], level, path, line, message % args, function)
        return record

    monkeypatch.setattr(logging, "_logRecordFactory", factory)
    JobLogging().take("n1", [pack_record(made(), JOB)])
    (record,) = caplog.records
    assert record.seen == ("model", logging.WARNING, "/a/b/model.py", 12, "said so", "fit")


class Raising(logging.Handler):
    def __init__(self, error):
        super().__init__()
        self.error = error

    def emit(self, record):
        raise self.error

    __call__ = filter = emit


@pytest.fixture(params=["factory", "handler", "filter"])
def raises(request, monkeypatch):
    """Have the program's factory, handler or filter raise an error."""

    def raises(error):
        raising = Raising(error)
        if request.param == "factory":
            monkeypatch.setattr(logging, "_logRecordFactory", lambda *arguments, **more: raising.emit(arguments))
        elif request.param == "handler":
            monkeypatch.setattr(logging.root, "handlers", [raising])
        else:
            monkeypatch.setattr(logging.root, "filters", [raising])

    return raises


@pytest.mark.parametrize("error", [ValueError("odd"), asyncio.CancelledError(), SystemExit(3)], ids=repr)
def test_what_code_of_the_program_raises_is_reported_and_ends_nothing(raises, error, capsys, monkeypatch):
    raises(error)
    record = msgspec.msgpack.encode(entry(name="not.known"))
    JobLogging().take("n1", [record, record])
    told = capsys.readouterr().err
    assert told.count("--- Logging error ---") == 2
    assert type(error).__name__ in told
    assert "said so" in told
    monkeypatch.setattr(logging, "raiseExceptions", False)
    JobLogging().take("n1", [record])
    assert capsys.readouterr().err == ""


def test_what_is_dropped_or_invalid_or_lost_ends_nothing_either(capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger("grainlike"), "filters", [Raising(ValueError("odd"))])
    logs = JobLogging()
    logs.take("n1", [b"", pack_dropped(7, "fit", 2, 1234)])
    logs.lost(5, "the connection broke")
    assert capsys.readouterr().err.count("ValueError: odd") == 3


def test_an_interrupt_during_a_handler_is_one_of_the_program(raises):
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    raises(KeyboardInterrupt())
    try:
        JobLogging().take("n1", [msgspec.msgpack.encode(entry(name="not.known"))])
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]


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
