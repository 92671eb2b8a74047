"""Access files: written for one user, believed only when nobody else could have touched them."""

import json
import os
from pathlib import Path

import psutil
import pytest

from grainlike.errors import AuthenticationError, HeadLostError
from grainlike.net import (
    Access,
    TcpAddress,
    find_access,
    parse_address,
    publish_access,
    read_access,
    state_directory,
    withdraw_access,
    write_access,
)

ADDRESS = TcpAddress("127.0.0.1", 7777)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "grainlike"


@pytest.fixture
def access() -> Access:
    return Access(ADDRESS, "c1", b"\x00secret\xff")


def mode(path: Path) -> int:
    return path.lstat().st_mode & 0o777


def test_what_is_published_is_found_in_every_way(access: Access, state: Path) -> None:
    folder = publish_access(access)
    assert folder == state / "c1"
    assert find_access() == access
    assert find_access(role="head") == access
    assert find_access("tcp://127.0.0.1:7777") == access
    assert find_access(str(folder / "worker.json")) == access
    assert find_access(folder / "head.json") == access


def test_only_its_owner_can_read_it(access: Access, state: Path) -> None:
    previous = os.umask(0)
    try:
        folder = publish_access(access)
    finally:
        os.umask(previous)
    assert mode(state) == mode(folder) == 0o700
    assert mode(folder / "head.json") == mode(folder / "worker.json") == 0o600
    assert sorted(path.name for path in state.iterdir()) == ["c1", "current"]
    assert sorted(path.name for path in folder.iterdir()) == ["head.json", "worker.json"]


def test_the_file_is_the_documented_json(access: Access) -> None:
    content = json.loads((publish_access(access) / "worker.json").read_text())
    assert content == {
        "version": 1,
        "address": "tcp://127.0.0.1:7777",
        "cluster": "c1",
        "secret": "00736563726574ff",
    }


def test_the_secret_is_not_in_the_repr(access: Access) -> None:
    assert "secret" not in repr(access)


def test_withdrawing_removes_everything_and_can_be_repeated(access: Access, state: Path) -> None:
    publish_access(access)
    withdraw_access(access)
    withdraw_access(access)
    assert list(state.iterdir()) == []


def test_the_newest_is_current_and_outlives_the_older(access: Access) -> None:
    newer = Access(ADDRESS, "c2", b"other")
    publish_access(access)
    publish_access(newer)
    assert find_access() == newer
    withdraw_access(access)
    assert find_access() == newer
    withdraw_access(newer)
    with pytest.raises(HeadLostError, match="no head is running here"):
        find_access()


def test_nothing_to_find_says_what_to_do(state: Path) -> None:
    with pytest.raises(HeadLostError, match=r"no head is running here.*start the program that listens"):
        find_access()
    with pytest.raises(HeadLostError, match=r"no access file for tcp://127\.0\.0\.1:7777"):
        find_access("tcp://127.0.0.1:7777")
    with pytest.raises(HeadLostError, match=r"no access file at .*gone\.json"):
        find_access(state / "gone.json")
    with pytest.raises(ValueError, match="needs a host and a port"):
        find_access("tcp://nonsense")


def test_an_address_is_found_beside_a_broken_file(access: Access, state: Path) -> None:
    publish_access(Access(TcpAddress("127.0.0.1", 1), "a-broken", b"x"))
    (state / "a-broken" / "worker.json").write_text("{")
    publish_access(access)
    assert find_access("tcp://127.0.0.1:7777") == access


@pytest.mark.parametrize("bits", [0o640, 0o604, 0o620, 0o602])
def test_a_file_open_to_others_is_refused_with_the_command_that_mends_it(access: Access, bits: int) -> None:
    path = publish_access(access) / "worker.json"
    path.chmod(bits)
    with pytest.raises(AuthenticationError, match=f"chmod 600 {path}"):
        read_access(path)
    with pytest.raises(PermissionError):
        find_access()


def test_a_file_of_another_user_is_refused(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    path = publish_access(access) / "worker.json"
    ours = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: ours + 1)
    with pytest.raises(AuthenticationError, match=f"belongs to user id {ours}, not to us"):
        read_access(path)


def test_a_symlink_is_not_followed(access: Access, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(publish_access(access) / "worker.json")
    with pytest.raises(AuthenticationError, match="cannot read"):
        read_access(link)


def test_a_fifo_does_not_hold_the_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.json", 0o600)
    with pytest.raises(AuthenticationError, match="not a regular file"):
        read_access(tmp_path / "fifo.json")


def test_a_directory_is_no_access_file_and_is_closed_again(access: Access, tmp_path: Path) -> None:
    (publish_access(access).parent / "a" / "worker.json").mkdir(parents=True)
    descriptors = psutil.Process().num_fds()
    with pytest.raises(AuthenticationError, match="not a regular file"):
        read_access(tmp_path)
    assert find_access(str(access.address)) == access
    assert psutil.Process().num_fds() == descriptors


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        "[" * 100_000,
        '{"version": 1}',
        '{"version": 1, "address": "nowhere", "cluster": "c", "secret": "00"}',
        '{"version": 1, "address": 5, "cluster": "c", "secret": "00"}',
        '{"version": 1, "address": "tcp://h:1", "cluster": "../c", "secret": "00"}',
        '{"version": 1, "address": "tcp://h:1", "cluster": 5, "secret": "00"}',
        '{"version": 1, "address": "tcp://h:1", "cluster": "c", "secret": "xyz"}',
    ],
)
def test_what_is_no_access_file_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(ValueError, match=f"{path} is not an access file"):
        read_access(path)


def test_a_later_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text('{"version": 2}')
    path.chmod(0o600)
    with pytest.raises(ValueError, match="version 2; this grainlike reads version 1"):
        read_access(path)


def test_a_directory_open_to_others_is_refused(access: Access, state: Path) -> None:
    state.mkdir(mode=0o755)
    with pytest.raises(PermissionError, match=f"chmod 700 {state}"):
        publish_access(access)


def test_writing_again_replaces_and_leaves_nothing_beside(access: Access, tmp_path: Path) -> None:
    path = tmp_path / "own" / "file.json"
    write_access(access, path)
    newer = Access(ADDRESS, "c1", b"newer")
    write_access(newer, path)
    assert read_access(path) == newer
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "current", "x" * 65, "a b"])
def test_a_cluster_may_not_have_a_name_that_is_a_path(name: str) -> None:
    with pytest.raises(ValueError, match="a cluster's name"):
        Access(parse_address("tcp://127.0.0.1:1"), name, b"")


@pytest.mark.parametrize("value", ["", "relative/state"])
def test_without_a_usable_state_home_the_default_is_under_home(
    value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", value)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_directory() == tmp_path / ".local" / "state" / "grainlike"
    monkeypatch.setenv("HOME", "")
    assert state_directory().is_absolute()
