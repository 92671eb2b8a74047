"""Directories of blocks: kept while anybody may look for what is in them."""

import os

from grainlike.launch import sweep_blocks

DAY_S = 86400.0
NOW = 1_800_000_000.0


def block(state, name, ages):
    """Make the directory of a block whose files were last written so many days ago."""
    folder = state / "blocks" / name
    folder.mkdir(parents=True)
    for file, days in ages.items():
        (folder / file).write_text("x")
        os.utime(folder / file, (NOW - days * DAY_S,) * 2)
    os.utime(folder, (NOW - 90 * DAY_S,) * 2)
    return folder


def test_what_was_written_to_lately_is_kept(tmp_path):
    old = block(tmp_path, "gl0a1b2c3d-1", {"script": 40, "log": 31})
    logged = block(tmp_path, "gl0a1b2c3d-2", {"script": 40, "log": 29})
    other = block(tmp_path, "other", {"log": 90})
    assert sweep_blocks(tmp_path, NOW) == ["gl0a1b2c3d-1"]
    assert (old.exists(), logged.exists(), other.exists()) == (False, True, True)


def test_links_are_not_followed(tmp_path):
    real = block(tmp_path / "elsewhere", "gl0a1b2c3d-1", {"log": 90})
    (tmp_path / "blocks").mkdir()
    (tmp_path / "blocks" / "gl0a1b2c3d-1").symlink_to(real)
    assert sweep_blocks(tmp_path, NOW) == []
    assert (real / "log").exists()


def test_there_may_be_no_blocks(tmp_path):
    assert sweep_blocks(tmp_path) == []
