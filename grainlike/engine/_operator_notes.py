"""Notes on errors of operators that are applied in this program: whose values they were applied to."""

from __future__ import annotations

from contextlib import suppress

from grainlike.graph import Node
from grainlike.jobs import Job

__all__ = ["note_operator"]

_SHOWN = 4
"""Number of values that a note names."""


def note_operator(error: BaseException, node: Node) -> None:
    """Add to the error of an operator a line on which calls gave the values that it was applied to."""
    calls = [_call(dep) for dep in dict.fromkeys(node.deps)]
    if not calls:
        return  # on values that the program had given
    names = ", ".join(calls[:_SHOWN]) + (", ..." if len(calls) > _SHOWN else "")
    what = "an index" if node.function.name == "getitem" else f"operator {node.function.name}"
    with suppress(Exception):  # an exception of the user's may take no notes
        error.add_note(f"grainlike: {what}, in this program, on the value of {names}")


def _call(node: Node) -> str:
    number = node.record.job if isinstance(node.record, Job) else 0
    return f"{node.function.name} (job {number})" if number else node.function.name
