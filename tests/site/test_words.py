"""Plain technical English where users read: the project's terms, and sentences that are read once.

That is the pages of the site, the tutorials, the changelog, the docstrings of the reference and of all errors, and the
help of the commands. Other docstrings are held to fewer words. The terms are those of the table in
docs/architecture.md; `INSTEAD` has what was said in other words before.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import house
import pytest
import typer
from reference import SHOWN
from stage import ROOT

from grainlike import errors
from grainlike.cli._root import whole_app

METAPHORS = {
    r"anew": "again",
    r"births?|born": "start, or what a process was started with",
    r"bur(y|ies|ied|ials?)": "reap",
    r"dial(s|ed|led|ing|ling)?": "connect",
    r"dice": "random numbers",
    r"elders?": "a job that goes first, a blocked job",
    r"farewells?|goodbyes?": "the message `Goodbye`, or leave",
    r"gossip|whisper": "send, report",
    r"guests?(?! mode)": "client",
    r"heard of": "reported",
    r"heed(s|ed)?": "respect, obey",
    r"minds?": "scheduler",
    r"nobody (else )?needs?": "nothing needs",
    r"strangers?": "others, or unauthenticated peers",
    r"who does not|who do not": "a noun",
    r"whoever|whosoever": "a noun",
}
"""Private words that no docstring uses, as patterns, and what to write."""

OF_DOCSTRINGS = METAPHORS | {r"nobody|anybody": "no process, no client, no job, or the passive"}
"""Those, and words that the pages may have."""

INSTEAD = METAPHORS | {
    r"books?": "records, or tables",
    r"in order to": "to",
    r"just|simply|obviously|easily|of course": "nothing: leave it out",
    r"leverag(e|es|ing)|utili[sz](e|es|ing)": "use",
    r"master|slave|blacklist|whitelist": "head, worker, refused, allowed",
}
"""Words that no text for users has."""

MOST_WORDS = 32
"""Words in a sentence for users."""

_END = re.compile(r"(?:(?<=[.:;?])|(?<=[.:;?]\*\*))\s")
"""Where a sentence ends: also after one in bold type, with which an item of a list begins."""
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`|\]\([^)]*\)|<[^>]*>", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=::)\n((?:\n|[ ]*\n)*)((?P<margin>[ ]+)\S.*(?:\n(?P=margin).*|\n[ ]*(?=\n|$))*)")
_TABLE = re.compile(r"^=+(?: +=+)+\n(?:\S.*\n|\s+\S.*\n)*=+(?: +=+)+$", re.MULTILINE)


def prose(text: str) -> str:
    """Return a page without code, links and tags, with as many lines."""
    return _CODE.sub(lambda match: "x" + "\n" * match[0].count("\n"), text)


def plain(doc: str) -> str:
    """Return a docstring without the code in it, which is indented after two colons or an example's prompt."""
    doc = _INDENTED.sub(lambda match: "\n" * match[0].count("\n"), doc)
    return re.sub(r"^\s*(>>>|\.\.\.) .*$", "", doc, flags=re.MULTILINE)


def sentences(text: str) -> list[str]:
    """Return what a text says in paragraphs and lists; headings and tables are no sentences."""
    lines = [line for line in prose(text).splitlines() if not re.match(r"\s*(#|\||x$)", line)]
    blocks = re.split(r"\n\s*\n|^\s*(?:-|\d+\.) ", "\n".join(lines), flags=re.MULTILINE)
    return [" ".join(part.split()) for block in blocks for part in _END.split(block) if part.strip()]


def faults(text: str, words: dict[str, str] = INSTEAD, first: int = 1) -> list[str]:
    """Return the words in a text that it should not have, by line, and what to write."""
    text = prose(text)
    if not re.search(rf"\b(?:{'|'.join(words)})\b", text, re.IGNORECASE):
        return []
    return [
        f"{number}: {match[0]!r}: write {instead}"
        for number, line in enumerate(text.splitlines(), first)
        for pattern, instead in words.items()
        for match in re.finditer(rf"\b({pattern})\b", line, re.IGNORECASE)
    ]


def _docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Iterate over the docstrings of a file, those behind attributes too, with their lines."""
    left: list[ast.AST] = [ast.parse(path.read_text())]  # to walk through all nodes takes much longer
    while left:
        for one in getattr(left.pop(), "body", []):
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str):
                yield one.lineno, one.value.value
            left.append(one)


def _pages() -> Iterator[tuple[str, str]]:
    patterns = (
        "docs/**/*.md",
        "README.md",
        "worker/README.md",
        "tutorials/README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    )
    for path in (path for pattern in patterns for path in sorted(ROOT.glob(pattern))):
        yield str(path.relative_to(ROOT)), path.read_text()


def _tutorials() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "tutorials").glob("*.py")):
        text = "\n\n".join(plain(_with_rows(doc)) for _, doc in _docstrings(path))
        yield str(path.relative_to(ROOT)), text


def _with_rows(doc: str) -> str:
    """Return a docstring with the rows of its tables as those of a page, which are no sentences."""
    return _TABLE.sub(lambda match: "\n".join(f"| {row}" for row in match[0].splitlines()), doc)


def _reference() -> Iterator[tuple[str, str]]:
    for name, found in SHOWN.items():
        yield name, plain(inspect.getdoc(found) or "")
    for name, found in vars(errors).items():
        if isinstance(found, type) and issubclass(found, BaseException):
            yield f"errors.{name}", plain(inspect.getdoc(found) or "")


def _commands(command: Any, path: str) -> Iterator[tuple[str, str]]:
    context = command.make_context(path, [], resilient_parsing=True)
    helps = [getattr(one, "help", None) or "" for one in command.get_params(context)]
    yield path, "\n\n".join([command.help or "", *helps])
    for name, one in getattr(command, "commands", {}).items():
        yield from _commands(one, f"{path} {name}")


TEXTS = dict(_pages()) | dict(_tutorials()) | dict(_reference())
TEXTS |= dict(_commands(typer.main.get_command(whole_app()), "grainlike"))


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_for_users_has_the_words_of_the_project(name: str) -> None:
    found = [f"{name}:{fault}" for fault in faults(TEXTS[name])]
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("name", TEXTS)
def test_a_sentence_for_users_is_short(name: str) -> None:
    long = [one for one in sentences(TEXTS[name]) if len(one.split()) > MOST_WORDS]
    assert long == [], "\n".join(long)


@pytest.mark.parametrize("package", house.SOURCES)
def test_no_docstring_has_private_words(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{fault}"
        for path in house.modules().values()
        if path.is_relative_to(house.SOURCES[package])
        for line, doc in _docstrings(path)
        for fault in faults(plain(doc), OF_DOCSTRINGS, line)
    ]
    assert found == [], "\n".join(found)


def test_words_and_sentences_are_told_from_code() -> None:
    text = "# Mind\n\nA `mind` is [here](mind.md): it runs. It\nends.\n\n```py\nmind\n```\n"
    text += "\n- One.\n- **Two.** Three; four.\n"
    assert "mind" not in prose(text)
    assert prose(text).count("\n") == text.count("\n")
    assert sentences(text) == ["A x is [herex:", "it runs.", "It ends.", "One.", "**Two.**", "Three;", "four."]


def test_a_docstring_is_told_from_its_code() -> None:
    doc = "Runs it.\n\nIt prints::\n\n    mind\n      dice\n\nThen it ends.\n\nExample::\n\n    >>> elder\n"
    assert plain(doc).split() == ["Runs", "it.", "It", "prints::", "Then", "it", "ends.", "Example::"]
    assert plain(doc).count("\n") == doc.count("\n")


def test_words_of_other_times_are_found() -> None:
    assert faults("One.\nThe elders heed `heed` anew.") == [
        "2: 'anew': write again",
        "2: 'elders': write a job that goes first, a blocked job",
        "2: 'heed': write respect, obey",
    ]


def test_all_kinds_of_texts_are_there() -> None:
    wanted = {"docs/scheduling.md", "tutorials/06_streams.py", "Executor.up", "errors.StoreFullError", "CHANGELOG.md"}
    assert wanted | {"grainlike head start"} <= set(TEXTS)
    assert "job" in TEXTS["grainlike cancel"]


def test_every_term_is_in_the_table_of_words() -> None:
    table = (ROOT / "docs" / "architecture.md").read_text().partition("## The words")[2].partition("\n## ")[0]
    for term in ("placeholder", "job", "request", "allocation", "head", "worker", "pool", "block"):
        assert re.search(rf"^\| [^|]*\b{term}\b[^|]*\|", table, re.MULTILINE), term
