"""Damaged journals: what is recovered is what was appended, from the first on, or the damage is refused by its place.

With GRAINLIKE_TEST_SEEDS that many bits are flipped at random, and a journal of 64 KiB is cut at every byte.
"""

import os
import random
import shutil
from collections import Counter
from itertools import chain

import pytest
from journal_stands import KilledError, KillingDisk, fill, recover

from grainlike import JournalError
from grainlike.journal import survey
from grainlike.journal._format import HEAD_SIZE, HEADER_SIZE

LONG = "GRAINLIKE_TEST_SEEDS" in os.environ
SEEDS = int(os.environ.get("GRAINLIKE_TEST_SEEDS", "400"))
SIZE = 64 * 1024 if LONG else 4096
FIRST, SECOND, THIRD = "0000000000000001.log", "0000000000000002.log", "0000000000000003.log"
IMAGE = "0000000000000003.image"


def records_of(size, seed=1):
    """Records that fill so many bytes of a segment."""
    rng = random.Random(seed)
    size -= HEADER_SIZE
    while size >= HEAD_SIZE:
        length = min(rng.choice((0, 1, 5, 30, 200)), size - HEAD_SIZE)
        if 0 < size - HEAD_SIZE - length < HEAD_SIZE:
            length = size - HEAD_SIZE
        yield rng.randbytes(length)
        size -= HEAD_SIZE + length


def ends_of(records):
    """Where each record ends, after where the first begins."""
    ends = [HEADER_SIZE]
    for record in records:
        ends.append(ends[-1] + HEAD_SIZE + len(record))
    return ends


def flip(path, bit):
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def recover_or_salvage(directory):
    """What is recovered, with salvage if it is refused without; and the refusal."""
    try:
        return recover(directory), None
    except JournalError as error:
        return recover(directory, salvage=True), error


def test_cut_at_every_byte_the_whole_records_before_it_are_there(tmp_path):
    records = list(records_of(SIZE))
    (path,) = fill(tmp_path / "journal", records)
    data = path.read_bytes()
    assert len(data) == SIZE
    ends = ends_of(records)
    whole = 0
    for size in range(SIZE):
        path.write_bytes(data[:size])
        while whole < len(records) and ends[whole + 1] <= size:
            whole += 1
        _, found, more = recover(path.parent)
        assert found == records[:whole], size
        end = ends[whole] if size >= HEADER_SIZE else 0
        assert (more.cut, more.cut_path) == ((size - end, path) if size > end else (0, None)), size
        assert path.stat().st_size == max(end, HEADER_SIZE)


def test_any_bit_flipped_is_cut_with_the_tail_or_refused_at_its_record(tmp_path):
    records = [b"", b"two", b"three" * 4, b"last"]
    (path,) = fill(tmp_path / "journal", records)
    data, ends = path.read_bytes(), ends_of(records)
    for bit in range(8 * len(data)):
        path.write_bytes(data)
        flip(path, bit)
        bad = sum(end <= bit // 8 for end in ends) - 1
        if bad == len(records) - 1:
            assert recover(path.parent)[1] == records[:-1], bit
            continue
        with pytest.raises(JournalError, match="with --salvage") as caught:
            recover(path.parent)
        assert (caught.value.path, caught.value.offset) == (str(path), 0 if bad < 0 else ends[bad]), bit
        assert recover(path.parent, salvage=True)[1] == records[: max(bad, 0)], bit
        (aside,) = path.parent.glob("*.damaged")
        assert aside.stat().st_size == len(data)
        aside.unlink()


@pytest.fixture
def several(tmp_path):
    """A journal of three segments, with an image of the last, from which older files have not been removed."""
    parts = [list(records_of(900, 1)), list(records_of(700, 2)), list(records_of(800, 3))]
    fill(tmp_path / "journal", *parts, image=[b"state", b"", b"more" * 50])
    return tmp_path / "journal", parts


def test_bits_flipped_at_random_invent_nothing(tmp_path, several):
    directory, (first, second, third) = several
    image = [b"state", b"", b"more" * 50]
    rng = random.Random(7)
    outcomes = set()
    for seed in range(SEEDS):
        broken = shutil.copytree(directory, tmp_path / "broken")
        path = broken / rng.choice((SECOND, THIRD, THIRD, IMAGE))
        for _ in range(rng.choice((1, 1, 2, 5))):
            flip(path, rng.randrange(8 * path.stat().st_size))
        found, error = recover_or_salvage(broken)
        outcome = "salvaged" if error else "cut" if found[2].cut else "whole"
        assert error is None or error.path == str(path), seed
        if path.name == IMAGE and found[0] is None:
            assert found[1] == [*first, *second, *third], seed
        else:
            assert found[0] == image, seed
            assert found[1] == third[: len(found[1])], seed
        outcomes.add((path.name, outcome))
        shutil.rmtree(broken)
    expected = {(SECOND, "whole"), (THIRD, "cut"), (THIRD, "salvaged"), (IMAGE, "salvaged")}
    assert expected <= outcomes <= {*expected, (THIRD, "whole"), (IMAGE, "whole")}


def edit(rng, directory):
    """Do to a file what editors, copies and disks do: leave out, put in, double or exchange ranges, or take it away."""
    names = sorted(path.name for path in directory.iterdir() if path.name != "lock")
    path, other = (directory / rng.choice(names) for _ in range(2))
    data, source = path.read_bytes(), other.read_bytes()
    begin, end = sorted(rng.randint(0, len(data)) for _ in range(2))
    at = rng.randint(0, len(source))
    changes = {
        "left out": data[:begin] + data[end:],
        "put in": data[:begin] + rng.randbytes(rng.choice((1, 30))) + data[begin:],
        "doubled": data[:end] + data[begin:],
        "moved": data[:begin] + data[end:] + data[begin:end],
        "of another": data[:begin] + source[at : at + end - begin] + data[end:],
        "exchanged": source,
        "taken away": None,
    }
    what = rng.choice(list(changes))
    if changes[what] is None:
        path.unlink()
    else:
        path.write_bytes(changes[what])
    return what


def test_whatever_is_done_to_the_files_nothing_is_invented(tmp_path, several):
    directory, parts = several
    everything, image = list(chain(*parts)), [b"state", b"", b"more" * 50]
    rng = random.Random(13)
    refused = Counter()
    for seed in range(SEEDS):
        broken = shutil.copytree(directory, tmp_path / "broken")
        done = [edit(rng, broken) for _ in range(rng.choice((1, 1, 2)))]
        found, error = recover_or_salvage(broken)
        refused[done[0]] += bool(error)
        assert found[0] in (None, image), (seed, done)
        expected = everything if found[0] is None else parts[2]
        assert found[1] == expected[: len(found[1])], (seed, done)
        assert recover(broken)[:2] == found[:2], (seed, done)
        shutil.rmtree(broken)
    assert min(refused.values()) > 0
    assert len(refused) == 7


def test_zeroed_ranges_are_no_records(tmp_path, several):
    directory, (_, _, third) = several
    rng = random.Random(11)
    data = (directory / THIRD).read_bytes()
    ends = ends_of(third)
    for seed in range(SEEDS // 4):
        begin = rng.randrange(HEADER_SIZE, len(data) - 1)
        end = rng.choice((len(data), rng.randint(begin + 1, len(data))))
        changed = data[:begin] + bytes(end - begin) + data[end:]
        if changed == data:
            continue
        (directory / THIRD).write_bytes(changed)
        first = next(at for at, byte in enumerate(data) if byte != changed[at])
        whole = sum(one <= first for one in ends) - 1
        found, error = recover_or_salvage(directory)
        assert found[1] == third[:whole], seed
        reaches_the_last = max(at for at, byte in enumerate(data) if byte != changed[at]) >= ends[-2]
        assert (error and error.offset) == (None if reaches_the_last else ends[whole]), seed


def test_a_segment_that_is_missing_is_named(tmp_path):
    fill(tmp_path, [b"1"], [b"2"], [b"3"])
    (tmp_path / SECOND).unlink()
    with pytest.raises(JournalError, match=f"{SECOND} is damaged at byte 0: it is missing, and {THIRD} is there"):
        recover(tmp_path)
    assert recover(tmp_path, salvage=True)[1] == [b"1"]
    assert (tmp_path / f"{THIRD}.damaged").exists()
    assert recover(tmp_path)[1] == [b"1"]


def test_the_first_segment_is_missed_too(tmp_path):
    fill(tmp_path, [b"1"], [b"2"])
    (tmp_path / FIRST).unlink()
    with pytest.raises(JournalError, match=f"{FIRST} is damaged at byte 0: it is missing"):
        recover(tmp_path)
    assert recover(tmp_path, salvage=True)[1] == []


def test_the_segment_of_an_image_is_missed_too(several):
    directory, _ = several
    (directory / THIRD).unlink()
    with pytest.raises(JournalError, match=f"{THIRD} is damaged at byte 0: it is missing, and {IMAGE} is there"):
        recover(directory)
    image, records, _ = recover(directory, salvage=True)
    assert (image, records) == ([b"state", b"", b"more" * 50], [])


def test_a_segment_under_another_number_is_refused(tmp_path):
    fill(tmp_path, [b"1"], [b"2"])
    shutil.copy(tmp_path / SECOND, tmp_path / THIRD)
    with pytest.raises(JournalError, match=f"{THIRD} is damaged at byte 0: it is segment 2, by its header"):
        recover(tmp_path)
    assert recover(tmp_path, salvage=True)[1] == [b"1", b"2"]


def test_a_segment_of_another_journal_is_refused(tmp_path):
    fill(tmp_path / "ours", [b"1"], [b"2"])
    fill(tmp_path / "theirs", [b"a"], [b"b"])
    shutil.copy(tmp_path / "theirs" / SECOND, tmp_path / "ours")
    with pytest.raises(JournalError, match=f"{SECOND} is damaged at byte 0: it is a segment of another journal"):
        recover(tmp_path / "ours")
    assert recover(tmp_path / "ours", salvage=True)[1] == [b"1"]


def test_an_older_copy_of_a_segment_is_refused_for_what_it_lacks(tmp_path):
    fill(tmp_path, [b"1", b"2"], [b"3"])
    path = tmp_path / FIRST
    path.write_bytes(path.read_bytes()[: ends_of([b"1"])[-1]])
    with pytest.raises(JournalError, match=f"{SECOND} is damaged at byte 0: it begins behind 2 records"):
        recover(tmp_path)
    assert recover(tmp_path, salvage=True)[1] == [b"1"]


def test_a_torn_end_before_later_records_is_refused(tmp_path):
    fill(tmp_path, [b"1", b"2"], [b"3"])
    path = tmp_path / FIRST
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(JournalError, match="it is torn there, and there are records in later segments") as caught:
        recover(tmp_path)
    assert (caught.value.path, caught.value.offset) == (str(path), ends_of([b"1"])[-1])
    assert recover(tmp_path, salvage=True)[1] == [b"1"]


def test_a_torn_end_before_segments_without_records_is_cut(tmp_path):
    fill(tmp_path, [b"1", b"2"], [], [])
    path = tmp_path / FIRST
    path.write_bytes(path.read_bytes()[:-1])
    _, records, found = recover(tmp_path)
    assert records == [b"1"]
    assert (found.cut, found.cut_path, found.cut_offset) == (HEAD_SIZE, path, ends_of([b"1"])[-1])
    assert [one.path.name for one in survey(tmp_path).reports] == [FIRST]


def test_an_earlier_record_behind_the_last_is_no_record(tmp_path):
    records = [b"one", b"two"]
    (path,) = fill(tmp_path, records)
    data, ends = path.read_bytes(), ends_of(records)
    path.write_bytes(data + b"torn" + data[ends[0] : ends[1]])
    _, found, more = recover(tmp_path)
    assert (found, more.cut) == (records, 4 + ends[1] - ends[0])


def test_a_segment_that_was_begun_in_vain_is_dropped(tmp_path):
    fill(tmp_path, [b"1"], [])
    (tmp_path / SECOND).write_bytes(bytes(4096))
    _, records, found = recover(tmp_path)
    assert records == [b"1"]
    assert (found.cut, found.cut_path, found.cut_offset) == (4096, tmp_path / SECOND, 0)
    assert not (tmp_path / SECOND).exists()


def test_no_segment_is_kept_behind_one_that_is_dropped(tmp_path):
    fill(tmp_path, [b"1"], [], [])
    (tmp_path / SECOND).write_bytes(b"")
    fill(tmp_path, [b"2"])
    assert [path.name for path in sorted(tmp_path.glob("*.log"))] == [FIRST]
    assert recover(tmp_path)[1] == [b"1", b"2"]


@pytest.mark.parametrize("lacks", ["a byte", "its end", "a half", "all", "nothing, but there is more"])
def test_an_image_that_is_not_whole_is_refused(several, lacks):
    directory, parts = several
    path = directory / IMAGE
    data = path.read_bytes()
    left = {"a byte": data[:-1], "its end": data[:-HEAD_SIZE], "a half": data[:100], "all": b""}
    path.write_bytes(left.get(lacks, data + b"x"))
    with pytest.raises(JournalError, match=f"{IMAGE} is damaged"):
        recover(directory)
    image, records, _ = recover(directory, salvage=True)
    assert (image, records) == (None, list(chain(*parts)))
    assert (directory / f"{IMAGE}.damaged").exists()


def test_an_image_that_was_being_written_is_dropped(several):
    directory, parts = several
    (directory / IMAGE).rename(directory / f"{IMAGE}.new")
    image, records, _ = recover(directory)
    assert (image, records) == (None, list(chain(*parts)))
    assert not (directory / f"{IMAGE}.new").exists()


def test_what_is_set_aside_twice_keeps_both(tmp_path):
    for _ in range(2):
        fill(tmp_path, [b"1", b"2", b"3"])
        flip(tmp_path / FIRST, 8 * (HEADER_SIZE + HEAD_SIZE))
        recover(tmp_path, salvage=True)
    assert sorted(path.name for path in tmp_path.glob("*.damaged*")) == [f"{FIRST}.damaged", f"{FIRST}.damaged1"]


def test_a_journal_of_a_later_version_is_left_alone(tmp_path, monkeypatch):
    with monkeypatch.context() as later:
        later.setattr("grainlike.journal._format._VERSION", 2)
        fill(tmp_path, [b"1"])
    for salvage in (False, True):
        with pytest.raises(JournalError, match=f"{FIRST} cannot be read: it has version 2 of the format"):
            recover(tmp_path, salvage=salvage)
    assert sorted(path.name for path in tmp_path.iterdir()) == [FIRST, "lock"]


def test_a_refusal_changes_nothing(tmp_path):
    fill(tmp_path, [b"1", b"2"], [b"3", b"4"])
    flip(tmp_path / FIRST, 8 * (HEADER_SIZE + 3))
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.log")}
    with pytest.raises(JournalError):
        recover(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.log")} == before


def test_appends_go_on_behind_what_was_kept(tmp_path):
    fill(tmp_path, [b"1", b"2"])
    path = tmp_path / FIRST
    path.write_bytes(path.read_bytes() + b"torn")
    fill(tmp_path, [b"3"])
    assert recover(tmp_path)[1] == [b"1", b"2", b"3"]


def test_a_salvage_that_is_stopped_anywhere_can_be_done_again(tmp_path):
    parts = [list(records_of(300, seed)) for seed in (1, 2, 3)]
    fill(tmp_path / "journal", *parts)
    flip(tmp_path / "journal" / SECOND, 8 * (HEADER_SIZE + 4))
    for at in range(1, 100):
        again = shutil.copytree(tmp_path / "journal", tmp_path / "again")
        try:
            recover(again, salvage=True, disk=KillingDisk(at))
            break
        except KilledError:
            assert recover(again, salvage=True)[1] == parts[0], at
        shutil.rmtree(again)
    assert at > 10
    aside = {path.name for path in again.glob("*.damaged*")}
    assert aside == {f"{SECOND}.damaged", f"{THIRD}.damaged"}
