"""The last that a failed program wrote, as notes of the exception that tells of its failure."""

from __future__ import annotations

import sys

__all__ = ["as_note", "last_line_in", "note_last_words"]

_TOLD = 2000
"""Most bytes, or characters, of each stream that stand in a note."""

_MOST = 64
"""Most exceptions, causes and members of groups among them, that are looked at."""

_NOTE = "it wrote last on standard {}: "


def as_note(text: str) -> str:
    """Return text as a note of an exception: with several notes, its further lines are told by their two blanks."""
    return "\n".join(f"  {line}" if number and line else line for number, line in enumerate(text.split("\n")))


def note_last_words(error: BaseException) -> None:
    """Add to a `CalledProcessError` or `TimeoutExpired` of `subprocess` the end of the output and the error output that
    it holds; so to those that have caused `error`, and to members of a group. Nothing is noted twice.

    May raise whatever a user's class raises where it is looked at.
    """
    subprocess = sys.modules.get("subprocess")
    if subprocess is None:  # then no such exception is there, and it is not imported for the question's sake
        return
    kinds = subprocess.CalledProcessError, subprocess.TimeoutExpired
    found: list[BaseException] = [error]
    for one in found:  # it grows meanwhile
        if issubclass(type(one), kinds):
            _note(one)
        members = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        others = [each for each in (one.__cause__, one.__context__, *members) if each is not None]
        found += [each for each in others if not any(each is known for known in found)][: _MOST - len(found)]


def last_line_in(traceback: str) -> str:
    """Return the last line of such notes in the text of a traceback: of the error output, else of the output; an empty
    text if it has none.
    """
    for stream in ("error", "output"):
        _, note, written = traceback.rpartition(f"\n{_NOTE.format(stream)}")
        if note:
            return written.rstrip().rpartition("\n")[2].strip()
    return ""


def _note(error: BaseException) -> None:
    notes = getattr(error, "__notes__", ())
    for stream, attribute in (("output", "output"), ("error", "stderr")):
        beginning = _NOTE.format(stream)
        last = _end_of(getattr(error, attribute, None))
        if last and not any(str(note).startswith(beginning) for note in notes):
            error.add_note(as_note(beginning + last))


def _end_of(written: object) -> str:
    """Return the end of what was collected of a stream, as text that any terminal and any pickle takes."""
    if isinstance(written, (bytes, bytearray)):
        last = written[-_TOLD:]
        if len(written) > _TOLD:
            last = last.lstrip(bytes(range(0x80, 0xC0)))  # of a character whose beginning was cut off
        return last.decode(errors="replace").strip()
    if isinstance(written, str):
        return written[-_TOLD:].encode(errors="backslashreplace").decode().strip()
    return ""
