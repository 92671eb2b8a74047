"""Answers of the API of Kubernetes to what was to be created."""

from __future__ import annotations

import json

from grainlike.dialects._block import CommandResult
from grainlike.dialects._facts import Answer, answer_without_id, words_of
from grainlike.dialects._kubernetes_listing import mapping_of

__all__ = ["api_answer", "api_words"]

_TOO_MANY = 429
_BROKEN = 500


def api_answer(status: int, body: str, name: str) -> Answer:
    """Return what the answer to the creation of `name` means. One that is there already was taken before.

    Example::

        >>> api_answer(404, '{"message": "namespaces \\\\"x\\\\" not found"}', "gl00000000-1")
        Answer(verdict='refused', native='', words='namespaces "x" not found')
    """
    said = _status(body)
    if status < 300:
        return Answer("accepted", name)
    words = api_words(status, body)
    if said.get("reason") == "AlreadyExists":
        return Answer("accepted", name, words)
    if status == _TOO_MANY or status >= _BROKEN:
        return Answer("unclear", words=words)
    limited = answer_without_id(CommandResult(1, "", words)).verdict == "waits"
    return Answer("waits" if limited else "refused", words=words)


def api_words(status: int, body: str) -> str:
    """Return what the API said; at least its status."""
    message = _status(body).get("message")
    text = message if isinstance(message, str) and message else body
    return words_of(CommandResult(1, "", text)) if text.strip() else f"HTTP status {status}"


def _status(body: str) -> dict[str, object]:
    try:
        return mapping_of(json.loads(body))
    except (ValueError, RecursionError):
        return {}
