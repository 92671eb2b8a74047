"""Results on disk: whole or not at all, found by function, version and arguments; refused if others could write."""

import os

import numpy as np
import pytest

from grainlike import SerializationError
from grainlike.cache._store import DamagedError, Key, ResultStore, results_directory

KEY = Key("module:fit", "v1", b"\1" * 32)


@pytest.fixture
def results(tmp_path):
    return ResultStore(tmp_path / "results")


def files(results):
    return [path for path in results.directory.rglob("*") if path.is_file()]


def test_what_was_put_is_found(results):
    assert results.find(KEY) is None
    results.put(KEY, {"weights": np.arange(100_000), "name": "a"})
    kept, value = results.find(KEY)
    assert value["name"] == "a"
    np.testing.assert_array_equal(value["weights"], np.arange(100_000))
    value["weights"][0] = 7  # it is the finder's own
    assert (kept.function, kept.version, kept.size > 800_000) == ("module:fit", "v1", True)
    assert results.directory.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in files(results)] == [0o600]


def test_function_version_and_arguments_all_count(results):
    keys = [KEY, KEY._replace(function="module:other"), KEY._replace(version="v2"), KEY._replace(identity=b"\2" * 32)]
    for number, key in enumerate(keys):
        results.put(key, number)
    assert [results.find(key)[1] for key in keys] == [0, 1, 2, 3]
    assert results.versions_with(KEY) == ["v1", "v2"]
    assert results.versions_with(KEY._replace(function="module:new")) == []


@pytest.mark.parametrize("name", ["/a/b c.py:f", "..", ".", "m:" + "x" * 1000, "m:ü/\0"])
def test_any_name_is_one_folder_of_its_own(results, name):
    results.put(KEY._replace(function=name, version=name), name)
    results.put(KEY._replace(function=name + "y", version=name), "other")
    assert results.find(KEY._replace(function=name, version=name))[1] == name
    assert sorted(kept.function for _, kept in results) == sorted([name, name + "y"])
    assert all(path.parents[2] == results.directory for path in files(results))


def test_putting_again_replaces(results):
    results.put(KEY, 1)
    results.put(KEY, 2)
    assert results.find(KEY)[1] == 2
    assert len(files(results)) == 1


def test_a_value_without_bytes_leaves_nothing(results):
    with pytest.raises(SerializationError, match="the result"):
        results.put(KEY, (i for i in ()))
    assert not results.directory.exists() or files(results) == []


def test_every_cut_and_every_flipped_byte_is_noticed(results):
    results.put(KEY, list(range(20)))
    [path] = files(results)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedError):
            results.find(KEY)
    path.write_bytes(whole)
    [(_, kept)] = results
    body = len(whole) - kept.size
    for place in range(body, len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(DamagedError, match="its content is not what was written"):
            results.find(KEY)
    path.write_bytes(whole + b"more")
    with pytest.raises(DamagedError):
        results.find(KEY)


def test_listing_leaves_out_what_is_damaged_and_what_is_not_finished(results):
    results.put(KEY, 1)
    results.put(KEY._replace(version="v2"), 2)
    path = next(path for path, kept in results if kept.version == "v2")
    path.write_bytes(b"nonsense")
    (path.parent / ".new-abc").write_bytes(b"half")
    assert [kept.version for _, kept in results] == ["v1"]


def test_removing_takes_empty_folders_along(results):
    results.put(KEY, 1)
    results.put(KEY._replace(version="v2"), 2)
    for path, kept in list(results):
        if kept.version == "v1":
            results.remove(path)
    assert results.find(KEY) is None
    assert [path.name for path in (results.directory / "module%3Afit").iterdir()] == ["v2"]


def test_what_was_never_finished_is_removed_when_it_is_old(results):
    results.put(KEY, 1)
    folder = files(results)[0].parent
    old, fresh = folder / ".new-old", folder / ".new-fresh"
    for path, changed in ((old, 1000), (fresh, 3000)):
        path.touch()
        os.utime(path, (changed, changed))
    results.tidy(before=2000)
    assert not old.exists()
    assert fresh.exists()
    assert results.find(KEY)[1] == 1


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_a_directory_that_others_can_write_to_is_refused(results, mode):
    results.put(KEY, 1)
    results.directory.chmod(mode)
    for use in (lambda: results.find(KEY), lambda: results.put(KEY, 2), lambda: list(results)):
        with pytest.raises(PermissionError, match="chmod -R go-w"):
            use()


def test_where_results_are(monkeypatch):
    monkeypatch.setenv("GRAINLIKE_CACHE__DIRECTORY", "/data/mine")
    assert os.fspath(results_directory()) == "/data/mine"
    monkeypatch.delenv("GRAINLIKE_CACHE__DIRECTORY")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert os.fspath(results_directory()) == "/cache/grainlike/results"
