"""Calls whose messages cannot be encoded: each fails alone, or does not fail at all."""

from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from limits import LIMIT_S

import grainlike.net._byte_link as byte_link
from grainlike import Cores, Executor, Retry, SerializationError, WorkerLostError, connect, delayed, gather, start
from grainlike.wire import Define, Message, Run, Submit


class Seconds(float):
    """A number of a subclass, as NumPy's `float64` is one."""


class Times(int):
    """An integer of a subclass."""


class Name(str):
    """A string of a subclass."""

    __slots__ = ()


def _same(value: int) -> int:
    return value


@asynccontextmanager
async def _embedded(_: Path):
    async with Executor(local=Cores([0, 1])) as executor:
        yield executor


@asynccontextmanager
async def _connected(path: Path):
    listen = f"unix://{path}/door/head.sock"
    async with Executor(local=Cores([0, 1]), listen=listen) as head, connect(head.address) as executor:
        yield executor


@asynccontextmanager
async def _on_a_worker(_: Path, start_worker: Callable[..., object]):
    async with Executor(listen="tcp://127.0.0.1:0") as head:
        start_worker(head.address)
        yield head


@pytest.mark.parametrize("way", ["embedded", "connected", "on a worker"])
@pytest.mark.asyncio
async def test_options_may_be_of_subclasses_of_numbers_and_strings(
    way: str, tmp_path: Path, start_worker: Callable[..., object]
):
    opened = {"embedded": _embedded, "connected": _connected}.get(way)
    with anyio.fail_after(LIMIT_S):
        async with opened(tmp_path) if opened else _on_a_worker(tmp_path, start_worker):
            options: list[dict[str, Any]] = [
                {"timeout": Seconds(60)},
                {"priority": Times(2)},
                {"retries": Retry(Times(1), losses=Times(1), backoff=Seconds(1))},
                {"name": Name("named")},
            ]
            for option in options:
                assert await (delayed(**option)(_same) @ Cores(1))(3) == 3
            assert await (delayed(_same) @ Cores(1))(4) == 4


def _refuse_to_encode(monkeypatch: pytest.MonkeyPatch, kind: type[Message], refused: Callable[[Any], bool]) -> None:
    encode = byte_link.encode_frame

    def encode_frame(message: Message, buffers: Any = ()) -> Any:
        if isinstance(message, kind) and refused(message):
            raise OverflowError("it is too large")
        return encode(message, buffers)

    for module in ("grainlike.net._byte_link", "grainlike.net._resumable_session"):
        monkeypatch.setattr(f"{module}.encode_frame", encode_frame)


@pytest.mark.asyncio
async def test_a_function_whose_first_message_was_not_sent_goes_along_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    refuse = True
    _refuse_to_encode(monkeypatch, Submit, lambda message: refuse and "bad" in [fn.name for fn in message.functions])
    bad, good = delayed(name="bad")(_same) @ Cores(1), delayed(name="good")(lambda: 1) @ Cores(1)
    with anyio.fail_after(LIMIT_S):
        async with _connected(tmp_path):
            values = await gather(good(), bad(2), good(), return_exceptions=True)
            assert [values[0], values[2]] == [1, 1]
            assert isinstance(values[1], SerializationError)
            assert "bad cannot be sent: it is too large" in str(values[1])
            refuse = False
            assert await bad(3) == 3


@pytest.mark.parametrize("kind", [Define, Run])
@pytest.mark.asyncio
async def test_a_job_that_its_runner_cannot_be_told_of_ends_alone(
    kind: type[Message], gates: Any, monkeypatch: pytest.MonkeyPatch
):
    def is_bad(message: Any) -> bool:
        if isinstance(message, Define):
            return "bad" in [fn.name for fn in message.functions]
        return any(b"cursed" in parcel for parcel in message.data)

    _refuse_to_encode(monkeypatch, kind, is_bad)
    with anyio.fail_after(LIMIT_S):
        async with gates() as gate, Executor(local=Cores([0, 1])):
            beside_ = start((delayed(gate.visit) @ Cores(1))("here"))
            await gate.arrival()
            bad = delayed(name="bad", retries=Retry(0, losses=0))(_same) @ Cores(1)
            with pytest.raises(WorkerLostError, match=r"cannot be sent: it is too large"):
                await bad("cursed")
            gate.release_all()
            await beside_
            assert await (delayed(_same) @ Cores(1))(4) == 4
