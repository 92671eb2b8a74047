"""Plain technical English on the pages of the site: the project's terms, and sentences that are read once.

The terms are those of the table in docs/architecture.md. `INSTEAD` has what was said in other words before.
"""

import re
from pathlib import Path

import pytest
from stage import ROOT

INSTEAD = {
    r"anew": "again",
    r"books?": "records, or tables",
    r"dial(s|ed|led|ing|ling)?": "connect",
    r"dice": "random numbers",
    r"elders?": "a job that goes first",
    r"gossip|whisper": "send, report",
    r"heard of": "reported",
    r"heed(s|ed)?": "respected",
    r"just|simply|obviously|easily|of course": "nothing: leave it out",
    r"leverag(e|es|ing)|utili[sz](e|es|ing)": "use",
    r"in order to": "to",
    r"master|slave|blacklist|whitelist": "head, worker, refused, allowed",
    r"minds?": "scheduler",
    r"strangers?": "others, or unauthenticated peers",
    r"whoever|whosoever": "a noun",
}
"""Words that a page does not use, as patterns, and what to write."""

INSIDE = {"architecture.md", "internals.md"}
"""Pages about the source tree, in which the names of its files are words."""
ELSEWHERE = {"scheduling.md"}
"""Pages that are not rewritten yet."""

PAGES = [
    path
    for pattern in ("docs/**/*.md", "README.md", "worker/README.md", "tutorials/README.md")
    for path in sorted(ROOT.glob(pattern))
    if path.name not in INSIDE | ELSEWHERE
]
SHORT = [path for path in PAGES if path.parent.name in ("start", "concepts", "how-to", "why")]
MOST_WORDS = 32
"""Words in a sentence of the pages that a newcomer reads."""

_END = re.compile(r"(?:(?<=[.:;?])|(?<=[.:;?]\*\*))\s")
"""Where a sentence ends: also after one in bold type, with which an item of a list begins."""
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`|\]\([^)]*\)|<[^>]*>", re.MULTILINE | re.DOTALL)


def prose(text: str) -> str:
    """Return a page without code, links and tags, with as many lines."""
    return _CODE.sub(lambda match: "x" + "\n" * match[0].count("\n"), text)


def sentences(text: str) -> list[str]:
    """Return what a page says in paragraphs and lists; headings and tables are no sentences."""
    lines = [line for line in prose(text).splitlines() if not re.match(r"\s*(#|\||x$)", line)]
    blocks = re.split(r"\n\s*\n|^\s*(?:-|\d+\.) ", "\n".join(lines), flags=re.MULTILINE)
    return [" ".join(part.split()) for block in blocks for part in _END.split(block) if part.strip()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_uses_the_words_of_the_project(page: Path) -> None:
    found = [
        f"{page.relative_to(ROOT)}:{number}: {match[0]!r}: write {instead}"
        for number, line in enumerate(prose(page.read_text()).splitlines(), 1)
        for pattern, instead in INSTEAD.items()
        for match in re.finditer(rf"\b({pattern})\b", line, re.IGNORECASE)
    ]
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("page", SHORT, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_sentence_for_newcomers_is_short(page: Path) -> None:
    long = [one for one in sentences(page.read_text()) if len(one.split()) > MOST_WORDS]
    assert long == [], "\n".join(long)


def test_words_and_sentences_are_told_from_code() -> None:
    text = "# Mind\n\nA `mind` is [here](mind.md): it runs. It\nends.\n\n```py\nmind\n```\n\n- One.\n- Two; three.\n"
    assert "mind" not in prose(text)
    assert prose(text).count("\n") == text.count("\n")
    assert sentences(text) == ["A x is [herex:", "it runs.", "It ends.", "One.", "Two;", "three."]


def test_every_term_is_in_the_table_of_words() -> None:
    table = (ROOT / "docs" / "architecture.md").read_text().partition("## The words")[2].partition("\n## ")[0]
    for term in ("placeholder", "job", "request", "allocation", "head", "worker", "pool", "block"):
        assert re.search(rf"^\| [^|]*\b{term}\b[^|]*\|", table, re.MULTILINE), term
