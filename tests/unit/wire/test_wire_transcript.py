"""What two ends keep of a conversation, and what they say again after a break."""

from __future__ import annotations

import random

import pytest

from grainlike.wire import Transcript
from grainlike.wire import _transcript as module


def test_after_a_break_only_what_had_not_come_is_sent_again() -> None:
    ours: Transcript[int] = Transcript()
    for number in range(10):
        ours.sent(number, 1)
    ours.acknowledged(4)
    assert ours.since(7) == [7, 8, 9]
    assert (len(ours), ours.size) == (3, 3)
    assert ours.since(10) == []


@pytest.mark.parametrize("count", [3, 11, -1])
def test_what_is_not_kept_cannot_be_gone_on_with(count: int) -> None:
    ours: Transcript[int] = Transcript()
    for number in range(10):
        ours.sent(number, 1)
    ours.acknowledged(4)
    assert ours.since(count) is None


def test_more_than_was_sent_cannot_have_come() -> None:
    ours: Transcript[int] = Transcript()
    ours.sent(1, 1)
    with pytest.raises(ValueError, match="2 messages are said to have come, of 1"):
        ours.acknowledged(2)


def test_an_old_word_changes_nothing() -> None:
    ours: Transcript[int] = Transcript()
    for number in range(5):
        ours.sent(number, 1)
    ours.acknowledged(3)
    ours.acknowledged(1)
    assert ours.since(3) == [3, 4]


@pytest.mark.parametrize("limit", ["MOST_COUNT", "MOST_BYTES"])
def test_what_is_kept_is_bounded(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, limit, 10)
    ours: Transcript[int] = Transcript()
    for number in range(25):
        ours.sent(number, 1)
    assert (len(ours), ours.size) == (10, 10)
    assert ours.since(14) is None
    assert ours.since(15) == list(range(15, 25))


def test_one_message_that_is_too_large_is_not_kept_and_the_next_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    ours: Transcript[int] = Transcript()
    ours.sent(0, 11)
    assert (len(ours), ours.size, ours.since(0)) == (0, 0, None)
    ours.sent(1, 1)
    assert ours.since(1) == [1]


def test_the_other_end_is_told_now_and_then() -> None:
    ours: Transcript[int] = Transcript()
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
    ends: tuple[Transcript[int], Transcript[int]] = (Transcript(), Transcript())
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
