"""Source distribution: all that is kept, metadata that an index of packages takes, and a README that it can show."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest
from readme_renderer import markdown

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Texts of the files of a source distribution, by path; of files that are no text the beginning."""
    return _built(ROOT, tmp_path_factory.mktemp("sdist"))


def _built(tree: Path, folder: Path) -> dict[str, str]:
    build = "import sys; from hatchling.build import build_sdist; build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(folder)], cwd=tree, check=True, capture_output=True)
    (archive,) = folder.glob("grainlike-*.tar.gz")
    texts = {}
    with tarfile.open(archive) as opened:
        for member in opened:
            file = opened.extractfile(member)
            assert file is not None, f"{member.name} is no file"
            texts[member.name.partition("/")[2]] = file.read().decode(errors="replace")
    return texts


@pytest.fixture(scope="module")
def metadata(sdist: dict[str, str]) -> Message:
    return message_from_string(sdist["PKG-INFO"])


@pytest.mark.skipif(
    shutil.which("git") is None or not (ROOT / ".git").exists(), reason="there is no repository to compare with"
)
def test_every_file_of_the_repository_is_in_it(sdist: dict[str, str]) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    kept = {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}
    assert len(kept) > 800
    assert kept - set(sdist) == set()


def test_what_builds_and_checks_leave_is_not_in_it(tmp_path: Path) -> None:
    tree, folder = tmp_path / "tree", tmp_path / "sdist"
    folder.mkdir()
    shutil.copytree(ROOT / "grainlike", tree / "grainlike", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copyfile(ROOT / name, tree / name)
    clean = _built(tree, folder)
    for left in _left():
        (tree / left).mkdir(parents=True)
        (tree / left / ".gitignore").write_text("*\n")  # as some tools write, which other builders do not read
        (tree / left / "left.txt").write_text("left\n")
    assert set(_built(tree, folder)) == set(clean)


def _left() -> list[str]:
    """Return the folders that `make clean` removes."""
    (removed,) = re.findall(r"^\trm -rf (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return [name.replace("-*", "-3.13") for name in removed.split()] + ["grainlike/wire/__pycache__"]


def test_what_the_site_leaves_is_cleaned() -> None:
    assert {"build", ".cache"} <= set(_left())  # mkdocstrings keeps what it has rendered in the second


def test_an_index_can_show_the_readme_and_its_links_lead_somewhere(metadata: Message) -> None:
    assert metadata["Description-Content-Type"] == "text/markdown"
    page = markdown.render(str(metadata.get_payload()))
    assert page is not None
    assert re.search(r"<h1[^>]*>grainlike<", page)
    assert page.count("<pre") > 5
    targets = re.findall(r'(?:href|src)="([^"]*)"', page)
    places = {f"#{place}" for place in re.findall(r'\bid="([^"]*)"', page)}
    assert [target for target in targets if not target.startswith("https://") and target not in places] == []
    assert "](" not in page


def test_classifiers_name_each_python_that_the_tests_are_run_on(metadata: Message) -> None:
    classifiers = metadata.get_all("Classifier", [])
    named = re.findall(r"Python :: (3\.\d+)$", "\n".join(classifiers), re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text()
    (tried,) = re.findall(r"^PYTHONS \?= (.*)$", makefile, re.MULTILINE)
    assert [f"python{version}" for version in named] == tried.split()
    assert metadata["Requires-Python"] == f">={named[0]}"


def test_it_names_every_extra(metadata: Message) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(metadata.get_all("Provides-Extra", [])) == set(project["optional-dependencies"])


def test_the_page_of_what_an_installation_has_names_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    table = (ROOT / "docs" / "start" / "install.md").read_text().partition("## Extras")[2].partition("\n\nWhere")[0]
    named = [
        name
        for row in table.splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`(\w+)`", row.split("|")[1])
    ]
    assert sorted(named) == sorted(project["optional-dependencies"])
