"""Sources of the site and the last check of it; `make docs` does both with the pages that it builds."""

import re
from pathlib import Path

import pytest
import yaml
from api_pages import signed_classes
from check import finish, mistakes
from stage import ROOT, stage

_CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text())


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "sources"
    stage(folder)
    return folder


def test_every_page_has_a_place_and_every_place_a_page(sources: Path, tmp_path: Path) -> None:
    assert list(mistakes(_CONFIG, sources, tmp_path)) == []


def test_pages_link_to_files_that_are_there_before_the_site_is_built() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    linked = [
        (page, link) for page in pages for link in re.findall(r"\]\(([^)#:\s]+\.md)(?:#[^)]*)?\)", page.read_text())
    ]
    assert len(linked) > 100
    assert [(page.name, link) for page, link in linked if not (page.parent / link).is_file()] == []


def test_the_reference_has_every_option_of_a_command(sources: Path) -> None:
    page = (sources / "reference" / "commands" / "workers.md").read_text()
    assert "## grainlike up\n" in page
    assert "| `--walltime H:MM:SS` | How long a block lasts. |" in page
    assert "### grainlike pools resume\n" in page


def test_text_of_a_tutorial_has_one_colon_before_code(sources: Path) -> None:
    page = (sources / "tutorials" / "14_sessions.md").read_text()
    assert "which is a name:\n\n    async with connect(" in page
    assert "::\n" not in page.partition("```python")[0]


SEARCHED = {
    "checkpoint": "how-to/campaigns.md",
    "concurrency": "how-to/limits.md",
    "CUDA": "how-to/gpus.md",
    "Docker": "start/install.md",
    "FastAPI": "how-to/web_services.md",
    "Gantt": "how-to/campaigns.md",
    "Jupyter": "start/notebook.md",
    "mpirun": "how-to/external_programs.md",
    "OOM": "why/worker_died.md",
    "ProcessPoolExecutor": "how-to/moving.md",
    "progress bar": "progress.md",
    "pytest": "how-to/testing.md",
    "rate limit": "how-to/limits.md",
    "segfault": "why/worker_died.md",
    "throttle": "how-to/limits.md",
    "timeout": "how-to/retries.md",
}
"""Words that people search for, which are not the project's own, and the page that answers."""


@pytest.mark.parametrize("word", SEARCHED)
def test_a_search_by_the_words_of_others_finds_the_page(sources: Path, word: str) -> None:
    assert word in (sources / SEARCHED[word]).read_text()


def test_a_tutorial_is_text_a_program_and_what_it_prints(sources: Path) -> None:
    page = (sources / "tutorials" / "01_first_steps.md").read_text()
    assert page.startswith("# First steps: delayed functions, placeholders, and what `await` does\n")
    assert "run(main" in page.partition("```python")[2].partition("```\n")[0]
    assert "its value: 49\n" in page.partition("It prints:\n\n```text\n")[2]


def test_a_link_out_of_the_pages_leads_to_its_page_on_the_site(sources: Path) -> None:
    assert "](worker.md#in-a-batch-job)" in (sources / "workers.md").read_text()
    assert "](../tutorials/16_lammps_on_slurm.md)" in (sources / "launching" / "slurm.md").read_text()


def test_what_is_wrong_with_a_site_is_told(tmp_path: Path) -> None:
    sources, site = tmp_path / "sources", tmp_path / "site"
    sources.mkdir()
    (site / "assets" / "javascripts").mkdir(parents=True)
    (sources / "lost.md").write_text("# Lost\n")
    (site / "a.html").write_text(
        '<h1 id="here">A</h1><a href="#here">1</a><a href="b.html#there">2</a><a href="#nowhere">3</a>'
        '<a href="c.html">4</a><a href="https://elsewhere.test">5</a>'
        '<script src="https://unpkg.com/iframe-worker/shim"></script><script src="//elsewhere.test/x.js"></script>'
    )
    (site / "b.html").write_text(
        '<p id="there">Example::</p><p>see <code>docs/data.md</code></p>'
        '<div class="doc doc-object doc-class"><h2 id="grainlike.launch.Slurm">Slurm</h2>\n<p>Workers.</p></div>'
        '<div class="doc doc-object doc-class"><h2 id="grainlike.wire.Totals">Totals</h2>\n'
        '<div class="doc-signature"><pre>Totals(<a>x</a>: int <b>=</b> LOSSES, y=PIPE)</pre></div></div>'
        f'<div class="doc-signature"><pre>run(main, local=&lt;the cores&gt;, {"x" * 100})</pre></div>'
    )
    (site / "own.css").write_text("a { background: url(https://elsewhere.test/x.png) }")
    finish(site)
    assert list(mistakes({"nav": [{"A": ["missing.md"]}]}, sources, site)) == [
        "the navigation names missing.md, which is not there",
        "lost.md is not in the navigation",
        "a.html loads //elsewhere.test/x.js",
        "a.html links to #nowhere",
        "a.html links to c.html",
        "b.html shows an example as text",
        "b.html has grainlike.launch.Slurm without a signature",
        "b.html names docs/data.md and does not lead there",
        "b.html shows the default LOSSES, and not its value",
        "b.html has a signature wider than a page: run(main, local=<the cores>, xxxxxxxxxxx ...",
        "own.css loads https://elsewhere.test/x.png",
    ]


def test_a_class_has_a_signature_unless_nothing_is_given_to_it() -> None:
    signed = signed_classes()
    assert {"grainlike.launch.Slurm", "grainlike.wire.EndedJob", "grainlike.context.JobNode"} <= signed
    assert not {"grainlike.graph.State", "grainlike.graph.Stream", "grainlike.GraphError"} & signed
