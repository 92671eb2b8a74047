"""Pictures of a terminal and of the demonstration show what there is today; tests/browser has the dashboard's."""

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from kept_pictures import KEEP, check_kept, with_words, words_of
from limits import LIMIT_S
from stage import ROOT
from top_picture import draw

_PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\x0dIHDR" + bytes(17) + b"\0\0\0\0IEND" + bytes(4)


@pytest.mark.asyncio
async def test_the_picture_of_top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with anyio.fail_after(LIMIT_S):
        check_kept("top.svg", (await draw()).encode())


def test_the_timeline_of_the_demonstration(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    quick = [] if os.environ.get(KEEP) else ["--quick"]  # the one that is kept has much to show
    ended = subprocess.run(
        [sys.executable, "-m", "grainlike", "demo", *quick, "--no-baseline", "--picture", "made.svg"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "worker")]),
            "XDG_STATE_HOME": str(tmp_path / "state"),
        },
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    check_kept("timeline.svg", (tmp_path / "made.svg").read_bytes())


def test_words_are_told_from_numbers_and_drawings() -> None:
    assert words_of(b'<text x="1">9 jobs&#160;of fit</text><text>fff</text><title>no</title>') == {"jobs", "of", "fit"}
    assert words_of(with_words(_PNG, "Queue 108\nUsage")) == {"Queue", "Usage"}


def test_a_picture_of_other_times_is_red(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kept_pictures.DOCS", tmp_path)
    monkeypatch.delenv(KEEP, raising=False)
    (tmp_path / "a.png").write_bytes(with_words(_PNG, "Cluster Queue Jobs History Limits"))
    now = with_words(_PNG, "Cluster Queue Jobs History Limits Usage")
    with pytest.raises(AssertionError, match="make pictures"):
        check_kept("a.png", now)
    monkeypatch.setenv(KEEP, "1")
    check_kept("a.png", now)
    assert (tmp_path / "a.png").read_bytes() == now


@pytest.mark.parametrize(("page", "picture"), [("docs/top.md", "top.svg"), ("docs/dashboard.md", "dashboard.png")])
def test_a_page_shows_it(page: str, picture: str) -> None:
    assert f"]({picture})" in (ROOT / page).read_text()


def test_the_first_page_to_try_shows_the_demonstration() -> None:
    assert "](../timeline.svg)" in (ROOT / "docs" / "start" / "laptop.md").read_text()
