"""What type checkers say of delayed functions and placeholders. Checked by `make check`, never run.

An ignored error is one that must be there: both checkers report ignores that nothing needs.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=error

from collections.abc import Callable
from functools import partial
from typing import Any, assert_type

from grainlike.graph import (
    Delayed,
    DelayedFn,
    Graph,
    Info,
    cancel,
    delayed,
    delayed_value,
    gather,
    graph,
    info,
    later,
    start,
)
from grainlike.resources import Cores, Memory


@delayed
async def grow(x: int, factor: float = 1.0) -> float:
    return x * factor


@delayed
def measure(text: str, *, strict: bool = False) -> int:
    return len(text) + strict


@delayed(nout=2, retries=3, timeout=1.5, priority=-1, keep=True, isolate=True, name="halves")
def halve(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


@delayed(timeout=60)
async def fetch(url: str, tries: int, agent: str, proxy: str | None = None) -> bytes:
    return f"{url}{tries}{agent}{proxy}".encode()


class Model:
    def __init__(self, bias: int) -> None:
        self.bias = bias

    @delayed
    async def fit(self, data: list[int]) -> str:
        return str(sum(data) + self.bias)


def calls_without_placeholders_are_checked_exactly() -> None:
    assert_type(grow(1), Delayed[float])
    assert_type(grow(1, factor=2.0), Delayed[float])
    assert_type((grow @ Cores(4))(1), Delayed[float])
    assert_type((measure @ (Cores(1) & Memory("1G")))("a", strict=True), Delayed[int])
    assert_type(halve("ab"), Delayed[tuple[str, str]])
    assert_type(fetch("u", 1, "a"), Delayed[bytes])
    grow("1")  # type: ignore[call-overload]
    grow()  # type: ignore[call-overload]
    grow(1, wrong=2)  # type: ignore[call-overload]
    (grow @ Cores(1))(1, factor="2")  # type: ignore[call-overload]
    grow @ 4  # type: ignore[operator]


def calls_with_a_placeholder_among_the_first_three_are_unchecked(r_: Delayed[int]) -> None:
    assert_type(grow(r_), Delayed[float])
    assert_type(grow(r_, factor=2.0), Delayed[float])
    assert_type((grow @ Cores(1))(1, r_), Delayed[float])
    assert_type(fetch("u", 1, r_), Delayed[bytes])
    assert_type(fetch("u", r_, "a", proxy="p"), Delayed[bytes])


def other_placeholders_go_through_later(r_: Delayed[int], flag_: Delayed[bool], t_: Delayed[str]) -> None:
    assert_type(later(r_), int)
    assert_type(measure("a", strict=later(flag_)), Delayed[int])
    assert_type(Model(1).fit([1, later(r_)]), Delayed[str])
    assert_type(fetch("u", 1, "a", later(t_)), Delayed[bytes])
    measure("a", strict=flag_)  # type: ignore[call-overload]
    measure("a", strict=later(t_))  # type: ignore[call-overload]


async def awaiting_gives_the_value(r_: Delayed[int]) -> None:
    assert_type(await r_, int)
    assert_type(await grow(1), float)
    assert_type(await (grow @ Cores(2))(1), float)
    assert_type(await halve("ab"), tuple[str, str])
    assert_type(await delayed_value("a"), str)


async def operators_and_attributes_give_any(r_: Delayed[int], s_: Delayed[float]) -> None:
    assert_type(r_ + s_, Delayed[Any])
    assert_type(2 * r_, Delayed[Any])
    assert_type(2**r_ - 1, Delayed[Any])
    assert_type(-r_, Delayed[Any])
    assert_type(abs(r_), Delayed[Any])
    assert_type(round(s_), Delayed[Any])
    assert_type(round(s_, 2), Delayed[Any])
    assert_type(divmod(r_, 2), Delayed[Any])
    assert_type(r_ == s_, Delayed[Any])
    assert_type(r_ < 3, Delayed[Any])
    assert_type(r_ & 1, Delayed[Any])
    assert_type(r_[0], Delayed[Any])
    assert_type(r_[1:3], Delayed[Any])
    assert_type(r_.shape, Delayed[Any])
    assert_type(r_.index(0), Delayed[Any])
    assert_type(await (r_ + 1), Any)
    total: Delayed[Any] | int = 0
    total += grow(1)
    r_[0] = 1
    r_.x = 1  # type: ignore[assignment]
    first_, second_ = halve("ab")
    assert_type(first_, Delayed[Any])
    assert_type(second_, Delayed[Any])
    assert_type(len(halve("ab")), int)


async def gathering(r_: Delayed[int], t_: Delayed[str], rs: list[Delayed[int]]) -> None:
    assert_type(gather(r_), Delayed[list[int]])
    assert_type(gather(r_, t_), Delayed[tuple[int, str]])
    assert_type(gather(r_, t_, r_), Delayed[tuple[int, str, int]])
    assert_type(gather(r_, t_, r_, t_), Delayed[tuple[int, str, int, str]])
    assert_type(gather(r_, t_, r_, t_, r_), Delayed[tuple[int, str, int, str, int]])
    assert_type(gather(r_, r_, r_, r_, r_, r_), Delayed[list[int]])
    assert_type(gather(rs), Delayed[list[int]])
    assert_type(gather(*rs), Delayed[list[int]])
    assert_type(gather(grow(x) for x in range(3)), Delayed[list[float]])
    assert_type(gather(r_, 2), Delayed[list[Any]])
    a, b = await gather(r_, t_)
    assert_type(a, int)
    assert_type(b, str)


async def gathering_exceptions(r_: Delayed[int], t_: Delayed[str], rs: list[Delayed[int]], flag: bool) -> None:
    assert_type(gather(r_, return_exceptions=True), Delayed[list[int | BaseException]])
    assert_type(gather(r_, t_, return_exceptions=True), Delayed[tuple[int | BaseException, str | BaseException]])
    assert_type(gather(rs, return_exceptions=True), Delayed[list[int | BaseException]])
    assert_type(gather(*rs, return_exceptions=True), Delayed[list[int | BaseException]])
    assert_type(gather((grow(x) for x in range(3)), return_exceptions=True), Delayed[list[float | BaseException]])
    assert_type(gather(r_, t_, return_exceptions=False), Delayed[tuple[int, str]])
    assert_type(gather(rs, return_exceptions=False), Delayed[list[int]])
    assert_type(gather(rs, return_exceptions=flag), Delayed[list[Any]])
    assert_type(gather(r_, 2, return_exceptions=True), Delayed[list[Any]])
    first, second = await gather(r_, t_, return_exceptions=True)
    if not isinstance(first, BaseException) and not isinstance(second, BaseException):
        assert_type(first, int)
        assert_type(second, str)


def mistakes_are_reported_and_what_follows_is_still_checked(r_: Delayed[int]) -> None:
    if r_:  # pyright: ignore[reportGeneralTypeIssues]
        grow("text")  # type: ignore[call-overload]
    grow("text")  # type: ignore[call-overload]
    print(r_ and 3)
    grow("text")  # type: ignore[call-overload]
    assert r_  # pyright: ignore[reportGeneralTypeIssues]
    grow("text")  # type: ignore[call-overload]
    while not r_:  # pyright: ignore[reportGeneralTypeIssues]
        grow("text")  # type: ignore[call-overload]


def calls_of_requests_are_reported_and_what_follows_is_still_checked() -> None:
    Cores(4)(3)  # type: ignore[operator]
    grow("text")  # type: ignore[call-overload]
    print(2 in grow(1), int(grow(1)), grow + 1)
    grow("text")  # type: ignore[call-overload]


def every_kind_of_callable(call: Callable[[int], str]) -> None:
    class Doubler:
        async def __call__(self, x: int) -> float:
            return 2.0 * x

    def divide(a: int, b: int) -> float:
        return a / b

    assert_type(delayed(divide).__wrapped__(1, 2), Any)
    delayed(divide).__wrapped__("a", 2)  # type: ignore[arg-type]
    delayed(divide).__wrapped__ = divide  # type: ignore[misc]
    assert_type(delayed(call)(1), Delayed[str])
    assert_type(delayed(Doubler())(1), Delayed[float])
    assert_type(delayed(partial(divide, 6))(3), Delayed[float])
    assert_type(delayed(divide, name="ratio")(1, 2), Delayed[float])
    assert_type(delayed("a".count)("a"), Delayed[int])
    assert_type(delayed(Model)(1), Delayed[Model])
    assert_type(delayed(lambda x: str(x))(1), Delayed[str])
    assert_type(Model(1).fit([1]), Delayed[str])
    assert_type((Model(1).fit @ Cores(1))([1]), Delayed[str])
    assert_type(Model.fit(Model(1), [1]), Delayed[str])
    Model(1).fit("a")  # type: ignore[call-overload]
    delayed(divide, cores=2)  # type: ignore[call-overload]
    delayed(divide, timeout="1")  # type: ignore[call-overload]


def questions(r_: Delayed[int]) -> None:
    assert_type(info(r_), Info)
    assert_type(info(r_).state, str)
    assert_type(start(r_), Delayed[int])
    assert_type(start(grow(1)), Delayed[float])
    assert_type(cancel(r_), bool)
    assert_type(graph(r_), Graph)


def placeholders_are_covariant(flag_: Delayed[bool], fn: DelayedFn[[int], bool]) -> None:
    wider: Delayed[int] = flag_
    made: Delayed[int] = fn(1)
    either: DelayedFn[[int], int] = fn
    narrower: Delayed[str] = flag_  # type: ignore[assignment]
    print(wider, made, either, narrower)
