"""Paths that a process imports from, as processes elsewhere are told them."""

import sys

from grainlike.system import import_paths


def test_the_empty_path_of_a_prompt_is_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "/lib"])
    assert import_paths() == [str(tmp_path), "/lib"]


def test_it_is_left_out_where_somebody_has_removed_that_directory(tmp_path, monkeypatch):
    folder = tmp_path / "removed"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    monkeypatch.setattr(sys, "path", ["", "/lib"])
    assert import_paths() == ["/lib"]
