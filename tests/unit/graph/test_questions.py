"""`info`, `start`, `cancel`, and the view in a notebook."""

from dataclasses import dataclass
from typing import Any

import pytest

from grainlike.errors import JobCancelledError
from grainlike.graph import Info, current_resolver, delayed, delayed_value, info, node_of, register, start
from grainlike.graph import cancel as cancel_placeholder
from grainlike.resources import Allocation, Cores, Receipt, Usage


@delayed
async def work(x: Any) -> Any:
    return x


@delayed
def fail() -> None:
    raise ValueError("<wrong>")


@dataclass
class Known:
    worker: str | None = "n1"
    allocation: Allocation | None = None
    attempt: int = 2
    receipt: Receipt | None = None
    usage: Usage | None = None
    began: float | None = 5.0
    ended: float | None = None
    job: int = 0
    size: int | None = None
    where: tuple[str, ...] = ()
    recomputed: int = 0

    def elapsed_s(self) -> float | None:
        return 12.3456

    def why_pending(self) -> str | None:
        return "waits for 4 cores"


def allocation() -> Any:
    return Cores([6, 7])


def test_info_of_a_lazy_placeholder() -> None:
    assert info((work @ Cores(1))(1)) == Info("work", "lazy")


def test_info_shows_what_the_executor_knows() -> None:
    r_ = work(1)
    node_of(r_).record = Known(allocation=allocation())
    told = info(r_)
    assert (told.worker, told.allocation, told.attempt) == ("n1", allocation(), 2)
    assert (told.began, told.ended) == (5.0, None)


@pytest.mark.asyncio
async def test_info_follows_the_state(resolver: Any) -> None:
    r_ = start(work(1))
    assert info(r_).state == "running"
    assert info(r_ + 1).state == "lazy"
    await r_
    assert (info(r_).state, info(r_).error) == ("succeeded", None)
    s_ = fail()
    with pytest.raises(ValueError, match="wrong") as caught:
        await s_
    assert (info(s_).state, info(s_).error) == ("failed", caught.value)


@pytest.mark.asyncio
async def test_start_begins_the_work_and_returns_the_placeholder(resolver: Any) -> None:
    r_ = work(1)
    assert start(r_) is r_
    assert resolver.calls == ["work"]
    assert start(r_) is r_
    assert await r_ == 1
    assert resolver.calls == ["work"]


def test_start_of_a_finished_placeholder_needs_nobody(nobody: None) -> None:
    assert info(start(delayed_value(1))).state == "succeeded"
    with pytest.raises(RuntimeError, match=r"run\(main\)"):
        start(work(1))


@pytest.mark.asyncio
async def test_cancel_before_the_start_is_done_at_once(resolver: Any) -> None:
    r_ = work(1)
    assert cancel_placeholder(r_) is True
    assert info(r_).state == "cancelled"
    assert cancel_placeholder(r_) is False
    for x_ in (r_, r_ + 1):
        with pytest.raises(JobCancelledError, match="work was cancelled"):
            await x_
    assert resolver.calls == []


@pytest.mark.asyncio
async def test_cancel_after_the_start_is_left_to_the_owner(resolver: Any) -> None:
    r_ = start(work(1))
    cancelled = []
    resolver.cancel = cancelled.append
    assert cancel_placeholder(r_) is True
    assert cancelled == [node_of(r_)]
    assert info(r_).state == "running"
    assert await r_ == 1
    assert cancel_placeholder(r_) is False


@pytest.mark.parametrize("ask", [info, start, cancel_placeholder, node_of])
@pytest.mark.parametrize("thing", [3, work, None])
def test_questions_are_for_placeholders(ask: Any, thing: Any) -> None:
    with pytest.raises(TypeError, match="expected a placeholder"):
        ask(thing)


def test_a_coroutine_is_said_to_be_one_for_a_task() -> None:
    async def program() -> None: ...

    coroutine = program()
    with pytest.raises(TypeError, match=r"not coroutine: await it, or run it as a task .* \(`asyncio\.create_task`"):
        start(coroutine)
    coroutine.close()


def test_the_last_one_registered_is_asked(resolver: Any) -> None:
    assert current_resolver(node_of(delayed_value(1))) is resolver
    other: Any = object()
    register(lambda _: other)
    assert current_resolver(node_of(delayed_value(1))) is other


def test_repr_is_one_short_line() -> None:
    assert repr((work @ Cores(4))(1)) == "<Delayed work(1): lazy, cores=4>"
    long_ = delayed(name="a\n" * 100)(len)("")
    assert len(repr(long_).splitlines()) == 1
    assert len(repr(long_)) < 80


def test_the_notebook_view_says_why_it_waits() -> None:
    r_ = (work @ Cores(4))(1)
    lazy = r_._repr_html_()
    assert "cores=4" in lazy
    assert "nothing has started it" in lazy
    node_of(r_).record = Known(allocation=allocation())
    pending = r_._repr_html_()
    for fact in ("n1", str(allocation()), "12.3 s", "waits for 4 cores"):
        assert fact in pending


def test_the_notebook_view_is_safe_html() -> None:
    r_ = delayed(name="<b>")(len)("")
    node_of(r_).fail(ValueError("<wrong>"))
    shown = r_._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "ValueError: &lt;wrong&gt;" in shown
    assert "<wrong>" not in shown
