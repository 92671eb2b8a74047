"""No figure of the source tree grows: see `house`, and `make house`."""

import ast
from pathlib import Path

import house
import pytest


@pytest.mark.parametrize("row", house.ROWS, ids=[row.name for row in house.ROWS])
def test_no_figure_is_larger_than_it_may_be(row: house.Row) -> None:
    found = row.culprits()
    assert found or row.is_count, "the row measures nothing"
    assert row.measure() <= row.bound, "\n".join(found)
    assert row.target <= row.bound


def test_a_circle_a_repeated_name_and_bodies_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = tmp_path / "grainlike" / "room"
    room.mkdir(parents=True)
    (room / "__init__.py").write_text("")
    (room / "_a.py").write_text("class Same: ...\n\ndef late():\n    from grainlike.room._b import Same\n")
    (room / "_b.py").write_text("from grainlike.room import _a\n\nclass Same(_a.Same): ...\n")
    (room / "_c.py").write_text('"""What it is."""\nfrom grainlike.room._b import Same\n')
    (room / "_d.py").write_text('def f(\n    x,\n):\n    """Do it."""\n    y = x\n    return y\n')
    monkeypatch.setattr(house, "ROOT", tmp_path)
    monkeypatch.setattr(house, "SOURCES", {"grainlike": tmp_path / "grainlike"})
    house.modules.cache_clear()
    house.imports.cache_clear()
    try:
        shown = "circles", "names", "openings", "function"
        found = {row.name: row.culprits() for row in house.ROWS if row.name in shown}
    finally:
        house.modules.cache_clear()
        house.imports.cache_clear()
    assert found["circles"] == ["grainlike.room._a, grainlike.room._b"]
    assert found["names"] == ["Same: grainlike.room._a, grainlike.room._b"]
    assert found["function"] == ["grainlike/room/_a.py:3: late: lines: 1", "grainlike/room/_d.py:1: f: lines: 2"]
    assert found["openings"] == ["grainlike/room/_c.py:1: What it is."]


def test_trees_are_parsed_once() -> None:
    path = next(iter(house.modules().values()))
    assert isinstance(house.tree(path), ast.Module)
    assert house.tree(path) is house.tree(path)
