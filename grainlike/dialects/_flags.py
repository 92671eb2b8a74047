"""Native flags of users: those that would change what must be known are refused, some replace ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

__all__ = ["FlagRules", "directive_word", "native_lines", "replaced_by", "why_refused"]


def _no_names(value: str) -> Sequence[str]:  # noqa: ARG001 - as those that find some
    return ()


@dataclass(frozen=True, slots=True)
class FlagRules:
    """Flags of a submitting command that clash with ours.

    Attributes:
        refused: flag to the option of ours that stands for it; a list's member is `-l walltime`.
        replaced: flag to what of ours it replaces: `memory`, `gpus` or `exclusive`.
        letters: True if flags are single letters with values behind them (`-N3`) and long words that may be cut
            (`--node=3`); False if each word is one flag (`-pe`).
        alone: letters without a value, which others may follow in the same word.
        lists: flags whose values are lists.
        names: the names in such a value.
    """

    refused: Mapping[str, str]
    replaced: Mapping[str, str] = field(default_factory=dict[str, str])
    letters: bool = True
    alone: str = ""
    lists: tuple[str, ...] = ()
    names: Callable[[str], Sequence[str]] = _no_names


def why_refused(rules: FlagRules, words: Sequence[str]) -> str:
    """Return why the native words cannot be taken, naming our option; empty if they can.

    Example::

        >>> why_refused(FlagRules({"--nodes": "nodes"}), ["--nodes=3"])
        '--nodes=3: write nodes instead'
    """
    if any(letter in word for word in words for letter in "\0\n\r"):
        return "a line's end cannot stand in a flag"
    for flag, shown in _flags(rules, words):
        ours = rules.refused.get(flag)
        if ours is not None:
            return f"{shown}: write {ours} instead" if ours else f"{shown}: it does not go with a block"
    takes = False
    for word in words:
        if word in ("-", "--") or not (takes or word.startswith("-")):
            return f"{word!r} is no flag, and no value of one"
        takes = word.startswith("-") and "=" not in word
    return ""


def replaced_by(rules: FlagRules, words: Sequence[str]) -> frozenset[str]:
    """Return which of `memory`, `gpus` and `exclusive` the native words say themselves.

    Example::

        >>> replaced_by(FlagRules({}, {"--mem": "memory"}), ["--mem=4G", "--qos=normal"])
        frozenset({'memory'})
    """
    return frozenset(rules.replaced[flag] for flag, _ in _flags(rules, words) if flag in rules.replaced)


def _flags(rules: FlagRules, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each known flag in the words, with the text that says it."""
    for word, following in pairwise([*words, ""]):
        for flag, value in _of_word(rules, word, following):
            yield flag, word
            if flag in rules.lists:
                for name in rules.names(value):
                    yield f"{flag} {name}", f"{flag} {name}"


def _of_word(rules: FlagRules, word: str, following: str) -> Iterator[tuple[str, str]]:
    if not word.startswith("-"):
        return
    if word.startswith("--") or not rules.letters:
        name, _, value = word.partition("=")
        yield _whole_name(rules, name), value or following
        return
    for place, letter in enumerate(word[1:], 2):
        yield f"-{letter}", word[place:] or following
        if letter not in rules.alone:
            return


def _whole_name(rules: FlagRules, name: str) -> str:
    known = [*rules.refused, *rules.replaced]
    if name in known or not rules.letters or len(name) < len("--x"):
        return name
    return next((flag for flag in known if flag.startswith(name)), name)


def native_lines(prefix: str, words: Sequence[str]) -> list[str]:
    """Return the user's native words as directives, a flag and its value a line."""
    lines: list[list[str]] = []
    for word in words:
        if word.startswith("-") or not lines:
            lines.append([])
        lines[-1].append(directive_word(word))
    return [f"{prefix} {' '.join(line)}" for line in lines]


def directive_word(word: str) -> str:
    """Return a word as it stands in a directive, in quotes where it needs some.

    Raises:
        ValueError: it has quotes, backslashes or line ends, which batch systems read in different ways.

    Example::

        >>> directive_word("/a b/log"), directive_word("--qos=normal")
        ('"/a b/log"', '--qos=normal')
    """
    if any(letter in word for letter in '"\\') or any(ord(letter) < ord(" ") or ord(letter) == 127 for letter in word):
        raise ValueError(f"{word!r}: quotes, backslashes and control characters cannot stand in a directive")
    plain = word and all(letter.isascii() and (letter.isalnum() or letter in "-_@%+=:,./~^") for letter in word)
    return word if plain else f'"{word}"'
