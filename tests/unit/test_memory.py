"""Memory for what is large: huge pages are asked for, only what is written is there, and it is given back."""

import ctypes
import mmap
from pathlib import Path

import pytest

from grainlike._memory import HUGE, copied, mapped_memory
from grainlike.payload import Payload
from grainlike.wire import TRUSTED, Beat, FrameDecoder, encode_frame

needs_huge_pages = pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").is_dir(), reason="this kernel has no transparent huge pages"
)


def address_of(view: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def facts_at(address: int) -> dict[str, list[str]]:
    """What /proc/self/smaps says of the mapping with this address; empty where there is none."""
    found: dict[str, list[str]] = {}
    inside = False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        name, *words = line.split()
        if "-" in name and not name.endswith(":"):
            first, last = (int(part, 16) for part in name.split("-"))
            inside = first <= address < last
        elif inside:
            found[name] = words
    return found


def resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * mmap.PAGESIZE


def decoded(data: bytes) -> memoryview:
    decoder = FrameDecoder(TRUSTED)
    (frame,) = [frame for piece in encode_frame(Beat(1), (data,)) for frame in decoder.feed(piece)]
    (buffer,) = frame.buffers
    return memoryview(buffer)


def test_mapped_memory_is_zeros_to_write_to() -> None:
    memory = mapped_memory(HUGE)
    assert memory is not None
    assert (memory.nbytes, memory.readonly, bytes(memory[:9])) == (HUGE, False, bytes(9))
    memory[5] = 1
    assert memory[5] == 1


def test_memory_takes_only_what_is_written() -> None:
    before = resident()
    memory = mapped_memory(256 * HUGE)
    assert memory is not None
    memory[0] = 1
    assert resident() - before < 2 * HUGE


def test_memory_is_given_back_with_its_last_view() -> None:
    memory = mapped_memory(HUGE)
    assert memory is not None
    address = address_of(memory)
    part = memory[7:8]
    del memory
    assert facts_at(address)
    part.release()
    assert not facts_at(address)


def test_more_than_the_system_has_is_a_memory_error() -> None:
    for size in (1 << 60, 1 << 63):
        with pytest.raises(MemoryError, match=str(size)):
            mapped_memory(size)


@pytest.mark.parametrize("size", [0, 1, HUGE - 1, HUGE, HUGE + 1])
def test_a_copy_is_equal_and_writable_and_shares_nothing(size: int) -> None:
    data = bytearray(b"ab" * size)[:size]
    made = copied(memoryview(data))
    assert bytes(made) == bytes(data)
    assert not memoryview(made).readonly
    data[:1] = b"z"[: len(data)]
    assert made[:1] == (b"a" if size else b"")


@needs_huge_pages
@pytest.mark.parametrize(
    "make",
    [
        copied,
        lambda data: Payload(b"", (data,)).detached().buffers[0],
        decoded,
    ],
    ids=["copied", "detached", "decoded"],
)
def test_large_buffers_ask_for_huge_pages(make) -> None:
    data = bytes(range(256)) * (2 * HUGE // 256)
    made = make(data)
    assert bytes(made) == data
    assert "hg" in facts_at(address_of(made))["VmFlags:"]


def test_a_large_buffer_that_was_only_declared_is_not_there() -> None:
    header = b"".join(encode_frame(Beat(1), (b"x",)))[16:-1]
    declared = 3 * 1024**3
    before = resident()
    decoder = FrameDecoder(TRUSTED)
    prefix = len(header).to_bytes(4, "little") + (1).to_bytes(4, "little") + declared.to_bytes(8, "little")
    decoder.feed(prefix + header + bytes(1000))
    assert not decoder.idle
    assert resident() - before < 2 * HUGE
