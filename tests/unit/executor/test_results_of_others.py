"""Kept results among other users: every folder and file is looked at as it is opened, and made for us alone."""

import os

import pytest

from grainlike.cache._store import Key, ResultStore
from grainlike.net import Access, write_access

KEY = Key("module:fit", "v1", b"\1" * 32)
NOBODY = 65534

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to another user")


@pytest.fixture
def group_folder(tmp_path):
    """A folder for all of a group, with the umask that such groups have."""
    folder = tmp_path / "group"
    folder.mkdir()
    folder.chmod(0o2777)
    before = os.umask(0o002)
    yield folder
    os.umask(before)


@pytest.fixture
def results(group_folder):
    return ResultStore(group_folder / "a" / "b" / "results")


def below(folder):
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}


def mode(path):
    return path.stat().st_mode & 0o777


def uses(results):
    return (lambda: results.find(KEY), lambda: results.put(KEY, 2), lambda: results.versions_with(KEY))


def test_every_folder_on_the_way_is_ours_alone(results, group_folder):
    results.put(KEY, 1)
    made = below(group_folder)
    assert len(made) == 6
    for name, path in made.items():
        assert mode(path) == (0o600 if path.is_file() else 0o700), name


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("bits", [0o770, 0o702])
def test_a_folder_inside_that_others_can_write_to_is_refused(results, depth, bits):
    results.put(KEY, 1)
    [file] = [path for path in results.directory.rglob("*") if path.is_file()]
    file.parents[depth - 1].chmod(bits)
    for use in (*uses(results)[: 1 + depth], lambda: list(results)):
        with pytest.raises(PermissionError, match=r"could have been written by others.*chmod -R go-w"):
            use()


@as_root
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_what_another_user_owns_is_never_opened(results, depth):
    results.put(KEY, 1)
    [file] = [path for path in results.directory.rglob("*") if path.is_file()]
    os.chown([file, *file.parents][depth], NOBODY, NOBODY)
    with pytest.raises(PermissionError, match=f"belongs to user id {NOBODY}"):
        results.find(KEY)


def test_a_file_that_others_can_write_is_not_opened(results):
    results.put(KEY, 1)
    [file] = [path for path in results.directory.rglob("*") if path.is_file()]
    file.chmod(0o620)
    with pytest.raises(PermissionError, match="could have been written by others"):
        results.find(KEY)


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_a_symbolic_link_in_the_place_of_any_is_refused(results, tmp_path, depth):
    results.put(KEY, 1)
    [file] = [path for path in results.directory.rglob("*") if path.is_file()]
    there = [file, *file.parents][depth]
    there.rename(tmp_path / "elsewhere")
    there.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="is a symbolic link"):
        results.find(KEY)


def test_a_pipe_in_the_place_of_a_result_holds_up_nobody(results):
    results.put(KEY, 1)
    [file] = [path for path in results.directory.rglob("*") if path.is_file()]
    file.unlink()
    os.mkfifo(file, 0o600)
    with pytest.raises(PermissionError, match="is not a regular file"):
        results.find(KEY)


def test_folders_on_the_way_to_access_files_are_closed_as_they_are_made(group_folder, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(group_folder / "state"))
    write_access(Access("c1", "worker", ()), group_folder / "state" / "grainlike" / "c1" / "worker.json")
    assert {mode(path) for path in below(group_folder).values() if path.is_dir()} == {0o700}
