"""Patterns that a browser asks for are such as a head takes."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from grainlike.dashboard._answers import _pattern
from grainlike.wire import PATTERN_CHARS


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("fit", "*fit*"),
        ("fit*", "fit*"),
        ("", ""),
        ("a" * 300, f"*{'a' * (PATTERN_CHARS - 2)}*"),
        ("?" * 300, "?" * (PATTERN_CHARS - 2)),
    ],
)
def test_patterns_are_no_longer_than_a_head_takes(text: str, pattern: str) -> None:
    assert _pattern(Request({"type": "http", "query_string": f"name={text}".encode()})) == pattern
