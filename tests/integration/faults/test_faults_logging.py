"""Records that jobs log reach the program's own handlers, wherever the jobs run, as the program's levels have it."""

import asyncio
import logging
from contextlib import asynccontextmanager, contextmanager

import anyio
import logging_calls
import pytest
from limits import LIMIT_S
from logging_calls import (
    configure_and_log,
    forge,
    log_at,
    log_at_all_levels,
    log_badly,
    log_in_children,
    log_long,
    log_when_cancelled,
    log_without_end,
    speak,
    speak_alone,
    speak_async,
    speak_at_once,
    speak_in_call,
    speak_in_thread,
    speak_in_worker_thread,
    speak_nested,
    wait_then_log,
    warn,
    warn_async,
    warn_by_module,
    warn_by_module_async,
    write_rubbish,
)
from waiting import until
from weather import Weather, port, way_through

from grainlike import GVAR, Cores, Executor, cancel, connect, delayed, gather, run, start
from grainlike.graph import node_behind
from grainlike.head import _record_router
from grainlike.joblogging import Rate, _gate

LISTEN = "tcp://127.0.0.1:0"


class Kept(logging.Handler):
    """Handler that keeps records, and formats them as an ordinary one would."""

    def __init__(self):
        super().__init__()
        self.records = []
        self.texts = []
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))

    def emit(self, record):
        self.records.append(record)
        self.texts.append(self.format(record))

    def clear(self):
        self.records.clear()
        self.texts.clear()

    def of(self, name):
        return [record for record in self.records if record.name == name]

    def messages(self, name="app.model"):
        return [record.getMessage() for record in self.of(name)]


def number_of(placeholder):
    return node_behind(placeholder).record.id


@contextmanager
def level_of(name, level):
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(level)
    try:
        yield logger
    finally:
        logger.setLevel(before)


@pytest.fixture
def kept():
    """A handler of the program's root logger; the loggers below `app` let pass INFO and above."""
    handler = Kept()
    logging.getLogger().addHandler(handler)
    with level_of("app", logging.INFO):
        yield handler
    logging.getLogger().removeHandler(handler)


@asynccontextmanager
async def embedded(start_worker):
    async with Executor(local=Cores(2)) as executor:
        yield executor


@asynccontextmanager
async def daemon(start_worker):
    async with Executor(listen=LISTEN) as executor:
        start_worker(executor.address)
        await executor.wait_for_workers(1)
        yield executor


@asynccontextmanager
async def client(start_worker):
    """A head whose own program does not log for it, and a client."""
    async with Executor(listen=LISTEN, logging=False) as head:
        start_worker(head.address)
        await head.wait_for_workers(1)
        async with connect(head.address) as executor:
            yield executor


@pytest.fixture(params=[embedded, daemon, client], ids=lambda way: way.__name__)
def opened(request, start_worker):
    return lambda: request.param(start_worker)


KINDS = [
    speak,
    speak_async,
    speak_at_once,
    speak_nested,
    speak_in_thread,
    speak_in_worker_thread,
    speak_in_call,
    speak_alone,
]


@pytest.mark.asyncio
async def test_all_of_a_record_arrives_wherever_it_is_made(opened, kept):
    async with asyncio.timeout(LIMIT_S), opened() as executor:
        (worker,) = executor.workers()
        for function in KINDS:
            r_ = (delayed(function, isolate=function is speak_alone) @ Cores(1))("word")
            _, pid, ended, thread = await r_
            told, error = kept.of("app.model")
            assert (told.levelno, told.levelname, told.getMessage()) == (logging.INFO, "INFO", "word 7")
            assert told.loss == 0.25
            assert list(told.shape) == [2, 3]
            assert str(told.odd) == "{1}"
            assert (told.process, told.threadName, told.funcName) == (pid, thread, "speak")
            assert told.pathname == logging_calls.__file__
            assert (told.filename, told.module) == ("logging_calls.py", "logging_calls")
            assert 0 <= ended - told.created < LIMIT_S
            assert 0 <= told.msecs < 1000
            text = kept.texts[kept.records.index(error)]
            assert text.startswith("ERROR app.model it failed\nTraceback (most recent call last):\n")
            assert "\nArithmeticError: word\nStack (most recent call last):\n" in text
            nested = function is speak_nested
            for record in (told, error):
                assert record.job_name == ("speak" if nested else function.__name__)
                assert (record.job != number_of(r_)) == nested
                assert (record.worker, record.attempt) == (worker.name, 1)
            kept.clear()
        assert not kept.of("grainlike")


@pytest.mark.anyio
@pytest.mark.parametrize("function", [speak, speak_at_once], ids=["process", "own loop"])
async def test_records_arrive_on_both_event_loops(kept, function):
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1)):
            await (delayed(function) @ Cores(1))("word")
    assert kept.messages() == ["word 7", "it failed"]
    assert {record.job_name for record in kept.of("app.model")} == {function.__name__}


@pytest.mark.asyncio
async def test_levels_are_the_programs_own_at_each_submission(opened, kept):
    async with asyncio.timeout(LIMIT_S), opened():
        job = delayed(log_at_all_levels) @ Cores(1)
        assert await job() == [logging.INFO, logging.INFO, logging.WARNING]
        assert kept.messages("app") == kept.messages() == ["INFO", "WARNING", "ERROR"]
        assert kept.messages("other") == ["WARNING", "ERROR"]
        kept.clear()
        with level_of("app.model", logging.DEBUG), level_of("other", logging.ERROR):
            assert await job() == [logging.INFO, logging.DEBUG, logging.ERROR]
            assert kept.messages() == ["DEBUG", "INFO", "WARNING", "ERROR"]
            assert kept.messages("other") == ["ERROR"]
        kept.clear()
        logging.disable(logging.WARNING)
        try:
            await job()
        finally:
            logging.disable(logging.NOTSET)
        assert kept.messages("app") == kept.messages() == kept.messages("other") == ["ERROR"]
        kept.clear()
        assert await job() == [logging.INFO, logging.INFO, logging.WARNING]
        assert kept.messages("other") == ["WARNING", "ERROR"]


@pytest.mark.asyncio
async def test_coroutines_of_one_process_keep_to_the_levels_of_their_programs(start_worker, kept):
    async def log():
        log_at_all_levels()

    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        start_worker(executor.address)
        await executor.wait_for_workers(1)
        with level_of("app.model", logging.DEBUG):
            await (delayed(log) @ Cores(1))()
        kept.clear()
        await (delayed(log) @ Cores(1))()
        assert kept.messages() == ["INFO", "WARNING", "ERROR"]


@pytest.mark.asyncio
async def test_a_level_that_was_raised_meanwhile_holds_on_arrival(gates, kept):
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)), gates() as gate:
        r_ = start((delayed(wait_then_log) @ Cores(1))(gate.visit))
        visitor = await gate.arrival()
        with level_of("app.model", logging.ERROR):
            visitor.release()
            await r_
    assert kept.messages() == []


@pytest.mark.asyncio
async def test_filters_of_the_programs_logger_decide(kept):
    logger = logging.getLogger("app.model")

    def choose(record):
        if record.levelno == logging.ERROR:
            raise LookupError("a filter that fails")
        return record.job_name == "speak"

    logger.addFilter(choose)
    try:
        async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
            await (delayed(speak) @ Cores(1))("word")
            await (delayed(speak_in_thread) @ Cores(1))("word")
    finally:
        logger.removeFilter(choose)
    assert kept.messages() == ["word 7"]


_BY_DEFAULT = """
import logging, sys
from grainlike import Cores, Executor, delayed, run

def plain():
    logging.getLogger("app").info("nothing")
    logging.getLogger("app").warning("plain")

async def coroutine():
    logging.getLogger("app").warning("coroutine")

async def main():
    async with Executor(local=Cores(1), echo={echo}, logging={logging}):
        for function in (plain, coroutine):
            await (delayed(function) @ Cores(1))()

run(main)
"""


@pytest.mark.parametrize(
    ("echo", "passed_on", "shown"),
    [(True, True, "plain\ncoroutine\n"), (False, True, ""), (True, False, "plain\ncoroutine\n"), (False, False, "")],
)
def test_without_any_configuration_a_warning_is_shown_once(script, echo, passed_on, shown):
    process = script(_BY_DEFAULT.format(echo=echo, logging=passed_on))
    _, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, err) == (0, shown)


async def lines(executor, placeholder):
    return [(line.stream, str(line)) async for line in executor.logs(placeholder)]


@pytest.mark.asyncio
@pytest.mark.parametrize("function", [warn, warn_async])
async def test_logs_have_records_as_a_stream_of_its_own(start_worker, kept, function):
    async with asyncio.timeout(LIMIT_S), daemon(start_worker) as executor:
        r_ = (delayed(function) @ Cores(1))()
        await r_
        assert await lines(executor, r_) == [("log", "WARNING:app:a warning")]


@pytest.mark.asyncio
@pytest.mark.parametrize("function", [warn, warn_async])
async def test_with_logging_off_a_record_is_output_as_ever(start_worker, kept, function):
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN, logging=False) as executor:
        start_worker(executor.address)
        await executor.wait_for_workers(1)
        r_ = (delayed(function) @ Cores(1))()
        await r_
        assert await lines(executor, r_) == [("stderr", "a warning")]
        async with connect(executor.address, logging=False):
            await (delayed(function) @ Cores(1))()
    assert kept.messages("app") == []


@pytest.mark.asyncio
async def test_a_process_that_ran_jobs_without_logging_passes_on_those_of_others(start_worker, kept):
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN, logging=False) as executor:
        start_worker(executor.address, resources="cores=1")
        await executor.wait_for_workers(1)
        for function in (warn, warn_async):
            await (delayed(function) @ Cores(1))()
        async with connect(executor.address):
            for function in (warn, warn_async):
                await (delayed(function) @ Cores(1))()
        assert [record.job_name for record in kept.of("app")] == ["warn", "warn_async"]
        r_ = (delayed(warn) @ Cores(1))()
        await r_
        assert await lines(executor, r_) == [("stderr", "a warning")]


def test_run_takes_logging(kept):
    async def main():
        await (delayed(warn) @ Cores(1))()

    run(main, local=Cores(1), logging=False)
    assert kept.messages("app") == []
    run(main, local=Cores(1))
    assert kept.messages("app") == ["a warning"]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("how", "arrives", "output", "file"),
    [
        ("basicConfig", False, [("stderr", "own: said")], ""),
        ("file", False, [], "WARNING:app.model:said\n"),
        ("handler", False, [("stderr", "said")], ""),
        ("null", True, [("log", "WARNING:app.model:said")], ""),
        ("null at the root", True, [("log", "WARNING:app.model:said")], ""),
        ("own file", True, [("log", "WARNING:app.model:said")], "said\n"),
    ],
)
async def test_what_a_job_configures_itself_is_respected_and_nothing_is_told_twice(
    kept, tmp_path, how, arrives, output, file
):
    path = tmp_path / "file"
    path.touch()
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)) as executor:
        r_ = (delayed(configure_and_log) @ Cores(1))(how, path)
        await r_
        assert await lines(executor, r_) == output
    assert kept.messages() == (["said"] if arrives else [])
    assert path.read_text() == file


@pytest.mark.asyncio
async def test_functions_of_the_module_do_not_configure_the_process_of_a_job(opened, kept):
    async with asyncio.timeout(LIMIT_S), opened():
        for function in (warn_by_module, warn_by_module_async):
            for _ in range(2):
                await (delayed(function) @ Cores(1))()
    assert kept.messages("root") == ["by the module"] * 4


@pytest.mark.asyncio
async def test_functions_of_the_module_configure_a_process_that_keeps_its_records(start_worker, kept):
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1), logging=False) as executor:
        r_ = (delayed(warn_by_module) @ Cores(1))()
        await r_
        assert await lines(executor, r_) == [("stderr", "WARNING:root:by the module")]


@pytest.mark.asyncio
@pytest.mark.parametrize("function", ["process", "shared"])
async def test_a_flood_is_dropped_with_a_count_that_is_told_once(opened, kept, function):
    async def in_a_loop(count):
        await asyncio.sleep(0)
        log_without_end(count)

    count = 20_000
    async with asyncio.timeout(LIMIT_S), opened():
        await (delayed(log_without_end if function == "process" else in_a_loop) @ Cores(1))(count)
    arrived = kept.messages()
    if function == "shared" and opened.__closure__[0].cell_contents.param is embedded:
        # A coroutine in the program's own loop logs as the program itself.
        assert (len(arrived), kept.of("grainlike")) == (count, [])
        return
    (note,) = kept.of("grainlike")
    assert 0 < len(arrived) < count
    assert arrived == sorted(arrived, key=lambda message: int(message.split()[1])), "in their order"
    dropped = int(note.getMessage().split()[0].replace(",", ""))
    assert dropped == count - len(arrived)
    assert "records of job" in note.getMessage()
    assert note.job == kept.of("app.model")[0].job


@pytest.mark.asyncio
async def test_what_is_long_is_shortened_with_a_note(opened, kept):
    async with asyncio.timeout(LIMIT_S), opened():
        await (delayed(log_long) @ Cores(1))()
    long, failed = kept.of("app.model")
    assert long.getMessage().startswith("xxx")
    assert long.getMessage().endswith("... [983,616 more characters of this message are left out]")
    assert long.long.endswith("... [8,976 more characters of this text are left out]")
    assert failed.getMessage() == "\\udcff"
    assert "characters are left out here" in failed.exc_text
    assert failed.exc_text.startswith("Traceback")
    assert len(failed.exc_text) < 40_000


@pytest.mark.asyncio
async def test_what_forked_children_of_a_job_log_arrives(kept):
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        pids = await (delayed(log_in_children) @ Cores(1))()
    assert sorted({record.process for record in kept.of("app.model")}) == pids
    assert len(kept.messages()) == 20


@pytest.mark.asyncio
async def test_a_record_that_cannot_be_formatted_is_the_jobs_own_trouble(kept):
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)) as executor:
        r_ = (delayed(log_badly) @ Cores(1))()
        await r_
        assert ("stderr", "--- Logging error ---") in await lines(executor, r_)
        (record,) = kept.of("app.model")
        assert (record.rude, record.huge, record.job) == ("<log_badly.<locals>.Rude>", str(2**100), number_of(r_))


@pytest.mark.asyncio
async def test_rubbish_in_its_pipe_harms_nobody_but_its_own_records(kept):
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        await (delayed(write_rubbish) @ Cores(1))()
        assert await (delayed(abs) @ Cores(1))(-3) == 3


@pytest.mark.asyncio
async def test_calls_that_travel_together_log_as_themselves(kept):
    def add(x):
        logging.getLogger("app.model").info("%d", x)
        return x + 1

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        job = delayed(add) @ Cores(1)
        await gather([job(-1) for _ in range(20)])  # what it takes is known then
        kept.clear()
        links = [job(0)]
        for _ in range(9):
            links.append(job(links[-1]))
        assert await links[-1] == 10
        assert kept.messages() == [str(number) for number in range(10)]
        assert [record.job for record in kept.of("app.model")] == [number_of(r_) for r_ in links]


@pytest.mark.asyncio
async def test_jobs_of_a_session_that_nobody_has_log_for_nobody_and_the_next_is_told(start_worker, gates, kept):
    async with (
        asyncio.timeout(LIMIT_S),
        Executor(listen=LISTEN, local=Cores(1), logging=False) as head,
        gates() as gate,
    ):
        async with connect(head.address, session="sweep") as ex:
            await (delayed(warn) @ Cores(1))()
            await until(lambda: kept.messages("app"))
            kept.clear()
            ex.name("late", (delayed(wait_then_log) @ Cores(1))(gate.visit))
            visitor = await gate.arrival()
        visitor.release()
        await until(lambda: not head._service.head.state.scheduler.jobs)
        async with connect(head.address, session="sweep") as ex:
            await ex.placeholders()["late"]
            await (delayed(warn) @ Cores(1))()
    assert kept.messages() == []
    assert kept.messages("app") == ["a warning"]
    (note,) = kept.messages("grainlike")
    assert note == "1 records of jobs were dropped: this program was away, or did not read them in time"


@pytest.mark.asyncio
async def test_a_client_whose_link_breaks_hears_nothing_twice(gates, kept, tmp_path):
    async with (
        asyncio.timeout(LIMIT_S),
        Executor(listen=LISTEN, local=Cores(1), logging=False) as head,
        Weather(port(head)) as weather,
        gates() as gate,
        connect(way_through(weather, head, tmp_path, "client")),
    ):
        job = delayed(log_at) @ Cores(1)
        for first in (0, 10, 20):
            r_ = start(job(gate.visit, first, first + 10))
            visitor = await gate.arrival()
            await until(lambda last=first + 9: str(last) in kept.messages())
            weather.cut()
            visitor.release()
            await r_
    assert kept.messages() == [str(number) for number in range(30)]


@pytest.mark.asyncio
async def test_a_worker_whose_link_breaks_resends_each_record_once(start_worker, gates, kept, tmp_path):
    async with (
        asyncio.timeout(LIMIT_S),
        Executor(listen=LISTEN) as head,
        Weather(port(head)) as weather,
        gates() as gate,
    ):
        start_worker(way_through(weather, head, tmp_path))
        await head.wait_for_workers(1)
        job = delayed(log_at) @ Cores(1)
        for first in (0, 10, 20):
            r_ = start(job(gate.visit, first, first + 10))
            visitor = await gate.arrival()
            weather.cut()
            visitor.release()
            await r_
    assert kept.messages() == [str(number) for number in range(30)]


@pytest.mark.asyncio
async def test_records_of_jobs_that_a_worker_does_not_hold_are_passed_over(start_worker, kept):
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        start_worker(executor.address)
        await executor.wait_for_workers(1)
        done = (delayed(warn) @ Cores(1))()
        await done
        assert await (delayed(forge) @ Cores(1))(number_of(done))
        assert await (delayed(forge) @ Cores(1))(12345)
    assert kept.messages() == []


@pytest.mark.asyncio
async def test_records_of_a_job_on_another_worker_are_passed_over(start_worker, gates, kept):
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor, gates() as gate:
        start_worker(executor.address, name="n1", resources="cores=1")
        await executor.wait_for_workers(1)
        r_ = start((delayed(wait_then_log) @ Cores(1))(gate.visit))
        visitor = await gate.arrival()
        start_worker(executor.address, name="n2", resources="cores=1")
        await executor.wait_for_workers(2)
        assert await (delayed(forge) @ Cores(1))(number_of(r_))
        visitor.release()
        await r_
    assert kept.messages() == ["late"]


@pytest.mark.asyncio
async def test_a_worker_that_sends_more_than_it_may_is_cut_short_by_the_head(start_worker, kept, monkeypatch):
    monkeypatch.setattr(_record_router, "HEAD_RATE", Rate(0.001, 100_000, 3_000))
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        worker = start_worker(executor.address)
        await executor.wait_for_workers(1)
        await (delayed(log_without_end) @ Cores(1))(10)
        assert kept.messages() == ["record 0", "record 1", "record 2"]
        worker.process.terminate()
        await until(lambda: not executor.workers())
    assert kept.messages("grainlike") == ["7 records of jobs were dropped: worker n1 sent more than it may"]


@pytest.mark.asyncio
async def test_what_a_job_logs_while_it_is_cancelled_arrives(opened, gates, kept):
    async with asyncio.timeout(LIMIT_S), opened(), gates() as gate:
        r_ = start((delayed(log_when_cancelled, isolate=True) @ Cores(1))(gate.visit))
        (await gate.arrival()).release()
        cancel(r_)
        await until(lambda: kept.messages() == ["cancelled"])


@pytest.mark.asyncio
async def test_the_factory_of_records_is_put_back(kept):
    before = logging.getLogRecordFactory()
    async with Executor(local=Cores(1)), Executor(local=Cores(1)):
        assert logging.getLogRecordFactory() is not before
        logging.getLogger("app").warning("of no job")
    assert logging.getLogRecordFactory() is before
    assert not hasattr(kept.of("app")[0], "job")


@pytest.mark.asyncio
async def test_attempts_are_told_apart(kept):
    def fail_once():
        logging.getLogger("app.model").info("attempt")
        if GVAR.job.attempt == 1:
            raise LookupError

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        await (delayed(fail_once, retries=1) @ Cores(1))()
    assert [record.attempt for record in kept.of("app.model")] == [1, 2]


def test_rates_are_what_the_page_says():
    assert (_gate.JOB_RATE.records, _gate.JOB_RATE.size) == (1000, 2**20)
