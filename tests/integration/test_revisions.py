"""`grainlike_bench compare`: what is said of pairs follows from their figures, and each revision runs its own build."""

import json
import shutil
import subprocess
import sys
import tempfile
from math import comb, inf
from pathlib import Path

import pytest
from grainlike_bench.compare import WORKLOADS
from grainlike_bench.revisions import main
from grainlike_bench.revisions._build import BuildError, Environment, build, checkout
from grainlike_bench.revisions._noise import CONFIDENCE, FEWEST, change, interval
from grainlike_bench.revisions._report import facts, text
from grainlike_bench.revisions._rows import ROWS, Figure, Row, chosen
from grainlike_bench.revisions._run import Found, run

ROOT = Path(__file__).parents[2]
PYTHON = Path(sys.executable)
BUILDS = (Environment("a" * 40, "1", Path(), PYTHON), Environment("b" * 40, "2", Path(), PYTHON))
DRIFT = [1.0, 3.0, 2.0, 9.0, 5.0, 7.0, 4.0]
"""One figure in rounds of which each is on a machine with other work."""


@pytest.mark.parametrize("count", range(1, 40))
def test_bounds_are_the_narrowest_that_have_the_confidence(count: int) -> None:
    """By the chance that fewer than so many of the ratios are below their median: heads of `count` coins."""

    def confidence(dropped: int) -> float:
        return 1 - 2 * sum(comb(count, heads) for heads in range(dropped + 1)) / 2**count

    bounds = interval(range(count))
    if count < FEWEST:
        assert bounds is None
        assert confidence(0) < CONFIDENCE
    else:
        assert bounds is not None
        low, high = map(int, bounds)
        assert low + high == count - 1
        assert confidence(low) >= CONFIDENCE > confidence(low + 1)


def test_pairs_show_what_is_smaller_than_the_drift_between_rounds() -> None:
    found = change(DRIFT, [figure * 1.05 for figure in DRIFT])
    assert (found.before, found.after, found.verdict) == (4.0, 4.2, "more")
    assert found.ratio == pytest.approx(1.05)
    assert change(DRIFT, [figure * 0.95 for figure in DRIFT]).verdict == "less"


def test_one_pair_of_seven_that_says_otherwise_is_enough_for_no_change() -> None:
    ratios = [1.1, 1.2, 1.1, 1.3, 1.2, 1.1, 0.99]
    found = change(DRIFT, [figure * ratio for figure, ratio in zip(DRIFT, ratios, strict=True)])
    assert found.verdict == "no change seen"
    assert found.bounds == (pytest.approx(0.99), pytest.approx(1.3))
    assert found.ratio == pytest.approx(1.1)


def test_few_pairs_show_nothing_and_counts_that_stay_are_no_change() -> None:
    assert change(DRIFT[:5], [2 * figure for figure in DRIFT[:5]]).verdict == "no change seen"
    assert change(DRIFT[:6], [2 * figure for figure in DRIFT[:6]]).verdict == "more"
    assert change([359.0] * 7, [359.0] * 7).verdict == "no change seen"
    assert change([0.0] * 7, [0.0] * 7).ratio == 1
    assert change([0.0] * 7, [2.0] * 7).ratio == inf
    assert change([2.0] * 7, [0.0] * 7).verdict == "less"
    with pytest.raises(ValueError, match="no pairs"):
        change([], [])
    with pytest.raises(ValueError, match="longer"):
        change([1.0], [1.0, 2.0])


ROW = Row(
    "default-trips",
    "round trips",
    ("nowhere",),
    {
        "rate": Figure("jobs/s", more_is_better=True),
        "p50": Figure("µs"),
        "p99": Figure("µs", always=False),
        "wake-ups": Figure("", always=False),
    },
)
FIGURES = {
    "rate": (DRIFT, [2 * figure for figure in DRIFT]),
    "p50": (DRIFT, [2 * figure for figure in DRIFT]),
    "p99": (DRIFT, DRIFT[::-1]),
    "wake-ups": ([4.0] * 7, [2.0] * 7),
}


def test_the_table_says_better_and_worse_and_leaves_out_details_that_did_not_change() -> None:
    lines = text([Found(ROW, FIGURES), Found(ROW, failure="after: gone")], BUILDS, 7).splitlines()
    rows = {line.split()[1]: line.split()[2:] for line in lines[1:4]}
    assert rows == {
        "rate": ["4", "8", "jobs/s", "2.000", "2.000", "-", "2.000", "better"],
        "p50": ["4", "8", "µs", "2.000", "2.000", "-", "2.000", "worse"],
        "wake-ups": ["4", "2", "0.500", "0.500", "-", "0.500", "better"],
    }
    assert lines[4:8] == [
        "",
        f"before: 1, {'a' * 40}",
        f"after: 2, {'b' * 40}",
        "default-trips: not measured: after: gone",
    ]
    assert "Of 4 figures, up to 0 may be said to have changed by chance" in lines[8]
    few = {name: (before[:2], after[:2]) for name, (before, after) in FIGURES.items()}
    assert "Too few rounds" in text([Found(ROW, few)], BUILDS, 2).splitlines()[-1]


def test_json_has_every_pair_and_every_verdict() -> None:
    found = json.loads(json.dumps(facts([Found(ROW, FIGURES), Found(ROW, failure="after: gone")], BUILDS, "a machine")))
    assert [(it["figure"], it["verdict"]) for it in found["changes"]] == [
        ("rate", "better"),
        ("p50", "worse"),
        ("p99", "no change seen"),
        ("wake-ups", "better"),
    ]
    assert found["before"] == {"commit": "a" * 40, "version": "1"}
    assert found["failures"] == {"default-trips": "after: gone"}


def test_rows_name_programs_and_figures_that_there_are() -> None:
    for name, row in ROWS.items():
        assert row.figures, name
        if row.program[0] == "grainlike_bench.compare":
            workload, _, size = row.program[2].partition("=")
            assert int(size) == WORKLOADS[workload].size
            assert {figure for figure in row.figures if ":" not in figure} <= WORKLOADS[workload].units.keys()
    assert [row.name for row in chosen(["queued", "run-trips"])] == ["run-trips", "queued"]
    assert {row.name for row in chosen(["start"])} == {name for name in ROWS if name.startswith("start-")}
    assert chosen([]) == list(ROWS.values())
    with pytest.raises(ValueError, match="no row is named 'r'"):
        chosen(["r"])


TELLING = """
import json, pathlib
home = pathlib.Path.cwd()
with open(home.parent / "order", "a") as order:
    order.write(home.name)
print("something")
print(json.dumps({"p50": [1, 2, 30], "rate": 5, "unknown": 1}))
"""


def test_both_run_in_each_round_and_take_turns_at_being_the_first(tmp_path: Path) -> None:
    builds = tuple(Environment(side, "1", tmp_path / side, PYTHON) for side in "ab")
    for build_ in builds:
        build_.home.mkdir()
        (build_.home / "telling.py").write_text(TELLING)
    rows = [Row("good", "", ("telling",), ROW.figures), Row("bad", "", ("nowhere",), ROW.figures)]
    told: list[str] = []
    good, bad = run(rows, (builds[0], builds[1]), 3, told.append)
    assert (tmp_path / "order").read_text() == "abbaab"
    assert good.figures == {"rate": ([5, 5, 5], [5, 5, 5]), "p50": ([2, 2, 2], [2, 2, 2])}
    assert bad.failure is not None
    assert bad.failure.startswith("before: ")
    assert "No module named nowhere" in bad.failure
    assert told == ["round 1 of 3: good", "round 1 of 3: bad", "round 2 of 3: good", "round 3 of 3: good"]


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main", "-C", str(root)]
    return subprocess.run([*command, *arguments], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in a repository with one commit, which cannot be imported; scratch files go where they are seen."""
    root = tmp_path / "repository"
    (root / "grainlike").mkdir(parents=True)
    (root / "grainlike" / "__init__.py").write_text("import module_that_is_nowhere\n")
    (root / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "grainlike"\nversion = "9.9"\n'
    )
    _git(root, "init", "--quiet")
    _git(root, "add", "--all")
    _git(root, "commit", "--quiet", "--message", "first")
    monkeypatch.chdir(root)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    return root


def test_what_cannot_be_compared_is_refused_with_the_reason(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: str) -> str:
        assert main(["--rounds", "1", *arguments]) == 2
        return capsys.readouterr().err

    assert "git knows no revision 'nonsense'" in refused("nonsense")
    assert "git knows no revision 'other'" in refused("--only", "async", "--", "HEAD", "other")
    assert "which revision" in refused()
    assert "no row is named 'nonsense'" in refused("HEAD", "--only", "nonsense")
    assert "leave out AFTER" in refused("HEAD", "HEAD", "--dirty")
    (repository / "new.py").write_text("")
    assert "changes that no revision has: new.py; commit them" in refused("HEAD")
    monkeypatch.chdir(repository.parent)
    assert "not a git repository" in refused("HEAD")
    with pytest.raises(BuildError):
        checkout()
    with pytest.raises(SystemExit, match="2"):
        main(["HEAD", "--rounds", "0"])


def test_a_revision_that_cannot_be_built_or_imported_is_refused(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["HEAD"]) == 2
    told = capsys.readouterr().err
    assert "cannot be built and imported" in told
    assert "No module named 'module_that_is_nowhere'" in told
    (repository / "pyproject.toml").write_text("[project\n")
    _git(repository, "commit", "--quiet", "--all", "--message", "broken")
    with pytest.raises(BuildError, match="cannot be built"):
        build(repository, _git(repository, "rev-parse", "HEAD").strip(), tmp_path / "build")
    assert not list((tmp_path / "scratch").iterdir())


def test_two_revisions_run_their_own_builds(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole of it on a small row: the second revision says another version of itself."""
    ours = ("pyproject.toml", "README.md", "LICENSE", "grainlike", "worker/grainlike_worker", "simtest")
    for name in ours:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, repository / name, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copy(ROOT / name, repository / name)
    for version in ("8.1", "8.2"):
        (repository / "grainlike" / "_version.py").write_text(f'__version__ = "{version}"\n')
        _git(repository, "add", "--all")
        _git(repository, "commit", "--quiet", "--message", version)
    kept = tmp_path / "found.json"
    assert main(["HEAD~1", "--rounds", "2", "--only", "async-trips", "--json", str(kept)]) == 0
    found = json.loads(kept.read_text())
    assert [found[side]["version"] for side in ("before", "after")] == ["8.1", "8.2"]
    assert found["after"]["commit"] == _git(repository, "rev-parse", "HEAD").strip()
    figures = found["rounds"]["async-trips"]
    assert {"p50", "trips: CPU", "trips: wake-ups"} <= figures.keys()
    assert all(len(figures[name][side]) == 2 for name in figures for side in ("before", "after"))
    assert {it["verdict"] for it in found["changes"]} == {"no change seen"}
    assert "Too few rounds" in capsys.readouterr().out
    assert not list((tmp_path / "scratch").iterdir())
    assert _git(repository, "status", "--porcelain") == ""
    assert _git(repository, "worktree", "list").count("\n") == 1
