"""An error that nobody ever saw is logged when its placeholder is let go of, and only then."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import Any

import pytest

from grainlike import Cores
from grainlike.engine._engine import Engine
from grainlike.engine._unretrieved import retrieved_elsewhere
from grainlike.errors import JobCancelledError
from grainlike.graph import Delayed, delayed, gather, info, node_of


class Nobody:
    """Takes calls, and never ends one by itself."""

    def submit(self, nodes: Any) -> None:
        pass

    def begin(self, node: Any, context: Any) -> None:
        pass

    def cancel(self, nodes: Any, *, skipped: bool = False) -> None:
        pass


@delayed
def save(*_: Any) -> Any:
    raise AssertionError("the test ends calls by hand")


job: Any = save @ Cores(1)


@pytest.fixture
def engine() -> Engine:
    made = Engine(None, lambda _: None, fail_fast=True)
    made.jobs = made.calls = Nobody()
    made.release_hold()
    return made


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.ERROR, logger="grainlike")

    def so_far() -> list[str]:
        gc.collect()
        return [record.getMessage() for record in caplog.records]

    return so_far


def failed(engine: Engine, r_: Delayed[Any], error: BaseException | None = None) -> Delayed[Any]:
    engine.start([node_of(r_)])
    engine.failed(node_of(r_), ValueError("disk full") if error is None else error)
    engine.pump()
    return r_


def test_it_is_logged_once_when_the_placeholder_is_let_go_of(
    engine: Engine, said: Callable[[], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    r_ = failed(engine, job())
    assert said() == []
    del r_
    assert said() == ["save failed with ValueError, and nobody has seen it: await what you start, or ask info() of it"]
    assert caplog.records[0].exc_info is not None
    assert isinstance(caplog.records[0].exc_info[1], ValueError)


def test_who_has_seen_it_is_not_told_again(engine: Engine, said: Callable[[], list[str]]) -> None:
    asked_ = failed(engine, job())
    assert isinstance(info(asked_).error, ValueError)
    raised_ = failed(engine, job())
    with pytest.raises(ValueError, match="disk full"):
        node_of(raised_).result()
    del asked_, raised_
    assert said() == []


def test_what_waits_for_a_call_or_depends_on_it_has_its_error(engine: Engine, said: Callable[[], list[str]]) -> None:
    input_ = job()
    sum_ = gather(input_, job())
    engine.start([node_of(sum_)])
    failed(engine, input_)
    del input_
    assert said() == []
    del sum_
    assert [words.split()[0] for words in said()] == ["gather"]


def test_what_is_watched_is_seen(engine: Engine, said: Callable[[], list[str]]) -> None:
    r_ = job()
    engine.watch(node_of(r_), retrieved_elsewhere)
    failed(engine, r_)
    del r_
    assert said() == []


def test_a_call_that_was_cancelled_or_never_started_has_no_error(engine: Engine, said: Callable[[], list[str]]) -> None:
    lazy_, cancelled_ = job(), job()
    engine.start([node_of(cancelled_)])
    engine.cancel([node_of(cancelled_)])
    elsewhere_ = failed(engine, job(), JobCancelledError("save was cancelled by an operator"))
    del lazy_, cancelled_, elsewhere_
    assert said() == []


def test_an_error_without_words_is_named_all_the_same(engine: Engine, said: Callable[[], list[str]]) -> None:
    class SilentError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    r_ = failed(engine, job(), SilentError())
    del r_
    assert [words.split(",")[0] for words in said()] == ["save failed with SilentError"]


def test_the_parser_is_not_entered_for_the_traceback(
    engine: Engine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collector calls destructors in the middle of anything, and CPython 3.11 cannot parse while it parses."""

    parsed: list[object] = []

    def parse(source: object, *_: Any, **__: Any) -> None:
        parsed.append(source)

    try:
        try:
            _ = {}["first"] + 1
        except KeyError as first:
            raise ValueError("second") from first
    except ValueError as second:
        r_ = failed(engine, job(), second)
    with monkeypatch.context() as patch:
        patch.setattr("ast.parse", parse)
        del r_
        gc.collect()
    assert parsed == []
    (record,) = caplog.records
    assert record.exc_info is not None
    text = logging.Formatter().format(record)
    assert text.count("Traceback") == 2
    assert 'raise ValueError("second") from first\n' in text
    assert "KeyError: 'first'" in text
