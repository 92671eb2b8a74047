"""`grainlike journal check`: what it says of sound, torn and damaged journals, and its exit codes."""

import json

import pytest

from grainlike.cli import main
from grainlike.journal import Journal, commit_image


@pytest.fixture
def directory(tmp_path):
    """A journal of three records in two segments, with an image of the second."""
    journal, _ = Journal.open(tmp_path / "journal")
    journal.append(b"one")
    segment = journal.begin_segment()
    commit_image(tmp_path / "journal", segment, [b"state"])
    journal.append(b"two")
    journal.append(b"three")
    journal.close()
    return tmp_path / "journal"


def check(capsys, *arguments):
    code = main(["journal", "check", *map(str, arguments)])
    told = capsys.readouterr()
    return code, told.out, told.err


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_a_sound_journal(directory, capsys, monkeypatch):
    monkeypatch.chdir(directory)
    code, out, err = check(capsys)
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines() if ".log" in line or ".image" in line]
    assert lines == [
        ["0000000000000001.log", "1", "83B", "of", "before", "the", "image:", "not", "needed"],
        ["0000000000000002.image", "1", "113B", "sound"],
        ["0000000000000002.log", "2", "116B", "sound"],
    ]
    assert out.endswith("sound: the image of segment 2, and 2 records to be replayed\n")


def test_a_torn_end_is_no_damage(directory, capsys):
    path = directory / "0000000000000002.log"
    path.write_bytes(path.read_bytes()[:-1])
    code, out, _ = check(capsys, directory)
    assert code == 0
    assert "torn at byte 83, as by a crash; or it is being written" in out
    assert path.stat().st_size == 115


def test_damage_is_told_with_its_place(directory, capsys):
    path = directory / "0000000000000002.log"
    flip(path, 60)
    code, out, _ = check(capsys, directory)
    assert code == 1
    assert "damaged at byte 52: a record is damaged, and a valid one begins at byte 83" in out
    assert f"damaged: {path} is damaged at byte 52" in out
    assert "with --salvage the image of segment 2 and no record are kept" in out


def test_as_json(directory, capsys):
    flip(directory / "0000000000000002.image", 60)
    code, out, _ = check(capsys, "--json", directory)
    told = json.loads(out)
    assert code == 1
    assert (told["sound"], told["image"], told["records"]) == (False, None, 3)
    assert told["damage"]["file"] == "0000000000000002.image"
    assert told["damage"]["offset"] == 52
    assert [(one["file"], one["state"]) for one in told["files"]] == [
        ("0000000000000001.log", "sound"),
        ("0000000000000002.image", "damaged"),
        ("0000000000000002.log", "sound"),
    ]
    assert told["files"][2] | {"problem": ""} == {
        "file": "0000000000000002.log",
        "state": "sound",
        "records": 2,
        "first": 1,
        "bytes": 116,
        "sound_bytes": 116,
        "problem": "",
    }


def test_what_lies_behind_the_damage_does_not_count(directory, capsys):
    (directory / "0000000000000002.image").unlink()
    (directory / "0000000000000001.log").unlink()
    code, out, _ = check(capsys, directory)
    assert code == 1
    assert "behind the damage" in out
    assert "0000000000000001.log is damaged at byte 0: it is missing, and 0000000000000002.log is there" in out


def test_wrong_usage(tmp_path, capsys):
    (tmp_path / "empty").mkdir(mode=0o700)
    code, _, err = check(capsys, tmp_path / "empty")
    assert (code, "there is no journal in" in err) == (2, True)
    code, _, err = check(capsys, tmp_path / "nothing")
    assert (code, "does not exist" in err) == (2, True)


def test_help_has_examples_and_exit_codes(capsys):
    assert main(["journal", "check", "--help"]) == 0
    out = capsys.readouterr().out
    assert "grainlike journal check --json" in out
    assert "1 it is damaged: no head starts with it" in out


def test_what_is_open_to_others_is_refused(directory, capsys):
    directory.chmod(0o755)
    code, out, err = check(capsys, directory)
    assert (code, out) == (3, "")
    assert err == f"grainlike: {directory} is open to other users; close it with: chmod 700 {directory}\n"
