"""A placeholder in a notebook: what is known of it, as a small table."""

from html import escape

from grainlike.graph._node import Node
from grainlike.graph._state import State

__all__ = ["html_of"]

COLOURS = {
    State.LAZY: "#94a3b8",
    State.PENDING: "#d97706",
    State.RUNNING: "#2563eb",
    State.SUCCEEDED: "#16a34a",
    State.FAILED: "#dc2626",
    State.CANCELLED: "#7c3aed",
}
"""One colour for each state, in tables and pictures."""


def html_of(node: Node) -> str:
    """State, request, worker, slots, elapsed time, and why it is pending or failed."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{word}</th><td style='text-align:left'>{escape(fact)}</td></tr>"
        for word, fact in _facts(node)
    )
    colour = COLOURS[node.state]
    head = (
        f"<b>{escape(node.function.name)}</b> "
        f"<span style='color:white;background:{colour};border-radius:4px;padding:0 6px'>"
        f"{node.state.label}</span>"
    )
    return f"<div>{head}<table>{rows}</table></div>"


def _facts(node: Node) -> list[tuple[str, str]]:
    known = node.record
    facts: list[tuple[str, object]] = [("request", node.request)]
    if known is not None:
        elapsed = known.elapsed_s()
        facts += [
            ("worker", known.worker),
            ("slots", known.allocation or None),
            ("elapsed", None if elapsed is None else f"{elapsed:.3g} s"),
            ("pending", known.why_pending()),
        ]
    elif node.state == State.LAZY:
        facts.append(("pending", "nothing has started it: await it, or start(r_)"))
    if node.error is not None:
        facts.append(("error", _words(node.error)))
    return [(word, str(fact)) for word, fact in facts if fact is not None]


def _words(error: BaseException) -> str:
    """Return type and text of an error. It is the program's own class, whose `__str__` may raise anything."""
    name = type(error).__name__
    try:
        return f"{name}: {str(error)}"  # noqa: RUF010 - `__format__` may be the program's, too
    except Exception as fault:  # noqa: BLE001 - the table is shown for its other rows
        return f"{name} (its text cannot be shown: {type(fault).__name__})"
