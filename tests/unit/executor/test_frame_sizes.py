"""Whatever is submitted, each message fits into what its receiver takes from whoever sends it."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from grainlike import Cores, Retry, delayed
from grainlike.graph import Node, node_of
from grainlike.jobs._submission import pack_calls, submit_calls
from grainlike.wire import BATCH_BYTES, FROM_CLIENT, FrameDecoder, Submit, Withdraw, encode_frame
from grainlike.wire._payloads import MOST_NUMBERS, split_by_bytes, split_by_count


class Nobody:
    def succeeded(self, node: Node, value: object) -> None:
        raise AssertionError(value)

    def failed(self, node: Node, error: BaseException) -> None:
        raise error


def plain(*what: object) -> int:
    return len(what)


def named(number: int) -> Any:
    """A function of its own, whose name and whose retry take much room."""

    class Odd(Exception):
        words = "z" * 900

    def function() -> int:
        return number

    function.__name__ = function.__qualname__ = f"f{number}_" + "x" * 200
    return delayed(function, retries=Retry(2, on=Odd)) @ Cores(1)


def alike(count: int, size: int) -> list[Any]:
    job = delayed(plain) @ Cores(1)
    return [job(b"z" * size) for _ in range(count)]


def not_refused(child: int, node: Node, error: Exception) -> None:
    raise error


def messages(placeholders: list[Any]) -> list[tuple[int, int]]:
    """Submit, and take as a head does: the size of the header and the number of calls of each message."""
    decoder = FrameDecoder(FROM_CLIENT)
    found: list[tuple[int, int]] = []
    nodes = [node_of(r_) for r_ in placeholders]
    batches = pack_calls(nodes, id, Nobody(), streams=False)
    sent: list[tuple[Submit, Any]] = []
    submit_calls(0, 0, batches, set(), lambda message, buffers: sent.append((message, buffers)), not_refused)
    for message, buffers in sent:
        pieces = b"".join(bytes(piece) for piece in encode_frame(message, buffers))
        (frame,) = decoder.feed(pieces)
        assert isinstance(frame.message, Submit)
        found.append((struct.unpack_from("<I", pieces)[0], len(frame.message.children)))
    return found


@pytest.mark.parametrize(
    ("placeholders", "most"),
    [
        pytest.param(lambda: alike(10_000, 0), 8, id="tiny"),
        pytest.param(lambda: alike(100, 8000), 4, id="small"),
        pytest.param(lambda: alike(3, 3_000_000), 3, id="large"),
        pytest.param(lambda: [named(number)() for number in range(600)], 6, id="functions"),
    ],
)
def test_calls_are_cut_into_a_few_frames_far_below_the_limit(placeholders: Any, most: int) -> None:
    calls = placeholders()
    found = messages(calls)
    assert sum(count for _, count in found) == len(calls)
    assert max(header for header, _ in found) < BATCH_BYTES * 9 // 8 < FROM_CLIENT.header // 2
    assert len(found) <= most


def test_the_numbers_of_a_million_jobs_are_cut_too() -> None:
    numbers = [2**40 + number for number in range(100_000)]
    parts = list(split_by_count(numbers))
    assert [number for part in parts for number in part] == numbers
    assert [len(part) for part in parts] == [MOST_NUMBERS] * 3 + [100_000 - 3 * MOST_NUMBERS]
    assert all(len(encode_frame(Withdraw(0, 0, part))[0]) < FROM_CLIENT.header // 2 for part in parts)
    assert list(split_by_count([])) == []


@pytest.mark.parametrize(("size", "together"), [(20_000_000, 1), (9_000_000, 1), (4_000_000, 4), (100_000, 139)])
def test_what_is_large_travels_alone(size: int, together: int) -> None:
    parcels = [(b"", [bytes(size)])] * 300
    cuts = list(split_by_bytes(parcels))
    assert [first for first, _ in cuts] == list(range(0, 300, together))
    assert [last for _, last in cuts] == [*range(together, 300, together), 300]
