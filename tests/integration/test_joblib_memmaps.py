"""Large arrays among the arguments of joblib's calls are mapped from files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import joblib
import numpy as np
import pytest
from joblib import Parallel
from joblib import delayed as later

from grainlike import Cores
from grainlike.adapters import GrainlikePool, _memmaps, register_joblib
from grainlike.payload import Store

register_joblib()


@pytest.fixture(scope="module")
def pool() -> Iterator[GrainlikePool]:
    with GrainlikePool(local=Cores([0, 1])) as pool:
        yield pool


@pytest.fixture(autouse=True)
def no_leaks(pool: GrainlikePool) -> None:
    """The pool stays from test to test; what one leaves is looked at in `test_joblib_backend`."""


def kind_of(array: np.ndarray, *, other: np.ndarray | None = None) -> tuple[str, str, bool, float]:
    name = "" if other is None else type(other).__name__
    return type(array).__name__, name, array.flags.writeable, float(array.sum())


def set_to(array: np.ndarray, value: float) -> None:
    array[:] = value


def head_of(array: np.ndarray) -> tuple[str, np.ndarray]:
    return str(getattr(array, "filename", "")), array[:3]


def whole_of(array: np.ndarray) -> tuple[str, np.ndarray]:
    return str(getattr(array, "filename", "")), np.array(array)


def kept_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_large_arrays_are_written_once_and_mapped(pool: GrainlikePool, tmp_path: Path) -> None:
    large, small = np.ones(1000), np.ones(10)
    with joblib.parallel_config("grainlike", pool=pool, max_nbytes=1000, temp_folder=str(tmp_path)):
        with Parallel(batch_size=2) as parallel:
            kinds = parallel(later(kind_of)(large, other=large) for _ in range(6))
            assert set(kinds) == {("memmap", "memmap", False, 1000.0)}
            assert len(kept_in(tmp_path)) == 1
            assert parallel([later(kind_of)(small)]) == [("ndarray", "", True, 10.0)]
            assert {name for name, _ in parallel(later(head_of)(large) for _ in range(4))} == {
                str(path) for path in kept_in(tmp_path)
            }
            (_, head), *_ = parallel([later(head_of)(large)])
            assert head.tolist() == [1, 1, 1]
        assert not list(tmp_path.iterdir())
        assert Parallel(max_nbytes=None)([later(kind_of)(large)]) == [("ndarray", "", True, 1000.0)]
        assert Parallel(mmap_mode="c")([later(kind_of)(large)])[0][2]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(4000.0),
        np.arange(4000.0).reshape(40, 100).T,
        np.arange(4000).astype("datetime64[D]").reshape(4, 10, 100),
        np.zeros(4000, dtype=[("a", "i4"), ("b", "f8")]),
        np.arange(8000.0)[::2],
    ],
    ids=["plain", "columns", "times", "records", "steps"],
)
def test_files_are_in_shared_memory_where_no_folder_was_chosen(
    pool: GrainlikePool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, array: np.ndarray
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with joblib.parallel_config("grainlike", pool=pool, max_nbytes=1000), Parallel() as parallel:
        ((path, found),) = parallel([later(whole_of)(array)])
        assert found.dtype == array.dtype
        assert found.flags.f_contiguous == (array.flags.f_contiguous or not array.flags.c_contiguous)
        assert (found == array).all()
        assert Path(path).is_relative_to("/dev/shm") == (array.flags.c_contiguous or array.flags.f_contiguous)
        assert Path(path).exists()
    assert not Path(path).exists()
    assert not Path(path).parent.exists()


def test_those_that_would_take_much_of_the_memory_are_on_the_disk(
    pool: GrainlikePool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(_memmaps, "spare_memory", lambda: 2 * 8000)
    arrays = np.ones(1000), np.ones(1001)
    with joblib.parallel_config("grainlike", pool=pool, max_nbytes=1000), Parallel() as parallel:
        paths = [Path(path) for path, _ in parallel(later(whole_of)(array) for array in arrays)]
        assert [path.is_relative_to("/dev/shm") for path in paths] == [True, False]
        assert kept_in(tmp_path) == paths[1:]


def test_those_for_which_the_file_system_has_no_room_are_on_the_disk(
    pool: GrainlikePool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(Store, "_write", full)
    array = np.ones(1000)
    with joblib.parallel_config("grainlike", pool=pool, max_nbytes=1000), Parallel() as parallel:
        ((path, found),) = parallel([later(whole_of)(array)])
        assert [Path(path)] == kept_in(tmp_path)
        assert found.sum() == 1000


def test_those_written_after_the_memory_was_swept_are_on_the_disk(
    pool: GrainlikePool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first, second = np.ones(1000), np.ones(1001)
    with joblib.parallel_config("grainlike", pool=pool, max_nbytes=1000), Parallel() as parallel:
        ((path, _),) = parallel([later(whole_of)(first)])
        shutil.rmtree(Path(path).parent)  # as `systemd` does when the user logs out
        ((path, found),) = parallel([later(whole_of)(second)])
        assert [Path(path)] == kept_in(tmp_path)
        assert found.sum() == 1001


@pytest.mark.parametrize(("mode", "kept"), [("r+", 3.0), ("w+", 3.0), ("c", 1.0)])
def test_what_calls_write_is_kept_or_not_as_the_mode_says(pool: GrainlikePool, mode: str, kept: float) -> None:
    array = np.ones(1000)
    with joblib.parallel_config("grainlike", pool=pool, max_nbytes=1000, mmap_mode=mode), Parallel() as parallel:
        parallel([later(set_to)(array, 3)])
        ((_, found),) = parallel([later(whole_of)(array)])
        assert set(found.tolist()) == {kept}


def test_files_of_arrays_that_are_gone_are_removed_with_their_calls(pool: GrainlikePool, tmp_path: Path) -> None:
    with (
        joblib.parallel_config("grainlike", pool=pool, max_nbytes=1000, temp_folder=str(tmp_path)),
        Parallel(batch_size=1, pre_dispatch=2) as parallel,
    ):
        assert [kind[3] for kind in parallel(later(kind_of)(np.full(1000, n)) for n in range(8))] == [
            1000.0 * n for n in range(8)
        ]
        assert not kept_in(tmp_path)


def test_what_the_user_has_mapped_is_mapped_again(pool: GrainlikePool, tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "own", dtype=float, mode="w+", shape=(500, 2))
    mapped[:] = 2
    before = set(tmp_path.iterdir())
    with (
        joblib.parallel_config("grainlike", pool=pool, max_nbytes=1000, temp_folder=str(tmp_path)),
        Parallel() as parallel,
    ):
        assert parallel([later(kind_of)(mapped)]) == [("memmap", "", True, 2000.0)]
        parallel([later(set_to)(mapped[:400], 3), later(set_to)(np.asarray(mapped[400:]), 4)])
        assert mapped.sum() == 800 * 3 + 200 * 4
        assert set(tmp_path.iterdir()) == before
        assert parallel([later(kind_of)(mapped[:, 0])]) == [("memmap", "", False, 1600.0)]
    assert set(tmp_path.iterdir()) == before


def test_arrays_travel_to_workers_that_may_be_elsewhere(tmp_path: Path) -> None:
    with (
        GrainlikePool(local=Cores([0]), listen="tcp://127.0.0.1:0") as pool,
        joblib.parallel_config("grainlike", pool=pool, max_nbytes=1000, temp_folder=str(tmp_path)),
    ):
        assert Parallel()([later(kind_of)(np.ones(1000))]) == [("ndarray", "", True, 1000.0)]


def test_files_of_a_program_that_was_killed_are_removed(pool: GrainlikePool, tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    left, ours = tmp_path / f"grainlike-joblib-{process.pid}-x", tmp_path / f"grainlike-joblib-{os.getpid()}-x"
    for folder in (left, ours):
        folder.mkdir()
    with joblib.parallel_config("grainlike", pool=pool, max_nbytes=1000, temp_folder=str(tmp_path)):
        Parallel()([later(kind_of)(np.ones(1000))])
    assert list(tmp_path.iterdir()) == [ours]


def test_arrays_travel_with_their_calls_where_no_file_can_be_written(
    pool: GrainlikePool, tmp_path: Path, caplog
) -> None:
    nowhere = str(tmp_path / "none")
    with joblib.parallel_config("grainlike", pool=pool, max_nbytes=1000, temp_folder=nowhere):
        kinds = Parallel()(later(kind_of)(np.ones(1000)) for _ in range(4))
    assert set(kinds) == {("ndarray", "", True, 1000.0)}
    (record,) = caplog.records
    assert "no file of them can be written" in record.getMessage()
