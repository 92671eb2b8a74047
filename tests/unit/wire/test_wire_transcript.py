"""What two ends keep of a conversation, and what they say again after a break."""

from __future__ import annotations

import random

import pytest

from grainlike.wire import ResendBuffer
from grainlike.wire import _resend_buffer as module


def test_after_a_break_only_what_had_not_come_is_sent_again() -> None:
    ours: ResendBuffer[int] = ResendBuffer()
    for number in range(10):
        ours.sent(number, 1)
    ours.acknowledged(4)
    assert ours.since(7) == [7, 8, 9]
    assert (len(ours), ours.size) == (3, 3)
    assert ours.since(10) == []


@pytest.mark.parametrize("count", [3, 11, -1])
def test_what_is_not_kept_cannot_be_gone_on_with(count: int) -> None:
    ours: ResendBuffer[int] = ResendBuffer()
    for number in range(10):
        ours.sent(number, 1)
    ours.acknowledged(4)
    assert ours.since(count) is None


@pytest.mark.parametrize(
    ("count", "why"),
    [
        (3, "more messages were on the way than are kept"),
        (1, "the other end has 1 messages, and had acknowledged 2: the journal lacks the last messages"),
        (11, "the other end has 11 messages, and only 10 are known here: the journal lacks the last messages"),
    ],
)
def test_why_it_cannot_be_gone_on_is_told_apart(count: int, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_COUNT", 6)
    ours: ResendBuffer[int] = ResendBuffer()
    ours.sent(0, 1)
    ours.sent(1, 1)
    ours.acknowledged(2)
    for number in range(2, 10):
        ours.sent(number, 1)
    assert (ours.why_not(count) or "").startswith(why)
    assert ours.why_not(4) is ours.why_not(10) is None


def test_who_has_more_than_it_can_have_been_sent_cannot_go_on() -> None:
    ours: ResendBuffer[int] = ResendBuffer()
    ours.sent(0, 1)
    ours.sent(1, 1)  # waits for the next connection
    assert ours.why_not(1, 1) is None
    why = ours.why_not(2, 1) or ""
    assert why.startswith(
        "the other end has 2 messages, and only 1 are known here: the journal lacks the last messages"
    )


def test_more_than_was_sent_cannot_have_come() -> None:
    ours: ResendBuffer[int] = ResendBuffer()
    ours.sent(1, 1)
    with pytest.raises(ValueError, match="2 messages were acknowledged, of 1 sent"):
        ours.acknowledged(2)


def test_an_old_word_changes_nothing() -> None:
    ours: ResendBuffer[int] = ResendBuffer()
    for number in range(5):
        ours.sent(number, 1)
    ours.acknowledged(3)
    ours.acknowledged(1)
    assert ours.since(3) == [3, 4]


@pytest.mark.parametrize(("limit", "most"), [("MOST_COUNT", 10), ("MOST_BYTES", 160)])
def test_what_is_kept_is_bounded(limit: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, limit, most)
    ours: ResendBuffer[int] = ResendBuffer()
    for number in range(25):
        ours.sent(number, 8)
    kept = 10 if limit == "MOST_COUNT" else 20
    assert (len(ours), ours.size) == (kept, 8 * kept)
    assert ours.since(24 - kept) is None
    assert ours.since(25 - kept) == list(range(25 - kept, 25))


def test_some_messages_are_kept_however_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 160)
    ours: ResendBuffer[int] = ResendBuffer()
    for number in range(16):
        ours.sent(number, 10**12)
    assert ours.since(0) == list(range(16))
    ours.sent(16, 1)
    assert ours.since(0) is None
    assert ours.since(1) == list(range(1, 17))


def test_what_waits_to_be_written_is_kept_for_it_is_in_memory_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 160)
    ours: ResendBuffer[int] = ResendBuffer()
    for number in range(100):
        ours.sent(number, 10, held=True)
    for number in range(100, 116):  # the connection has broken
        ours.sent(number, 10)
    assert ours.since(0) == list(range(116)), "as much again as without"
    ours.sent(116, 10)
    assert ours.since(0) is None
    ours.acknowledged(117)
    for number in range(20):
        ours.sent(number, 10)
    assert ours.size == 160, "there is no more room than ever"


def test_the_other_end_is_told_now_and_then() -> None:
    ours: ResendBuffer[int] = ResendBuffer()
    for _ in range(module.ACK_COUNT - 1):
        ours.came(1)
    assert not ours.owes
    assert ours.untold
    ours.came(1)
    assert ours.owes
    assert ours.acknowledge() == module.ACK_COUNT
    assert not ours.owes
    assert not ours.untold
    ours.came(module.ACK_BYTES)
    assert ours.owes


@pytest.mark.parametrize("seed", range(50))
def test_whatever_breaks_all_comes_once_and_in_order(seed: int) -> None:
    """Two ends, a way each that loses what is on it when it breaks."""
    dice = random.Random(seed)
    ends: tuple[ResendBuffer[int], ResendBuffer[int]] = (ResendBuffer(), ResendBuffer())
    came: tuple[list[int], list[int]] = ([], [])
    ways: tuple[list[int | str], list[int | str]] = ([], [])
    said = [0, 0]
    for _ in range(400):
        at = dice.randrange(2)
        match dice.choice("sssrrrrrab"):
            case "s":
                ends[at].sent(said[at], 1)
                ways[at].append(said[at])
                said[at] += 1
            case "r" if ways[1 - at]:
                message = ways[1 - at].pop(0)
                if isinstance(message, str):
                    ends[at].acknowledged(int(message))
                else:
                    ends[at].came(1)
                    came[at].append(message)
            case "a":
                ways[at].append(str(ends[at].acknowledge()))
            case "b":
                for end in (0, 1):
                    again = ends[end].since(ends[1 - end].received)
                    assert again is not None
                    ways[end][:] = again
            case _:
                pass
    for end in (0, 1):
        assert came[end] == list(range(len(came[end])))
        rest = [message for message in ways[1 - end] if isinstance(message, int)]
        assert came[end] + rest == list(range(said[1 - end]))
