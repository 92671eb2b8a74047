"""Calls in surroundings: what observers of a program's jobs have set up round the user's code, in the job's process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from grainlike.context import observers_here

__all__ = ["Surrounding", "packed_texts", "surrounded"]

logger = logging.getLogger("grainlike")

Surrounding = Callable[[str], AbstractContextManager[object]]
"""Function that makes the context manager in which a job's code runs, of the text that came with the job."""

_BETWEEN = "\x1e"
"""Separator of the texts: one argument of plain text is packed faster than a list of them."""


def surrounded(
    fn: Callable[..., Any], surroundings: Sequence[Surrounding | None], *, is_async: bool
) -> Callable[..., Any]:
    """Return a function that calls `fn` within `surroundings`. It takes the texts for them, packed, before the rest."""
    return (_SurroundedCoroutine if is_async else _SurroundedCall)(fn, tuple(surroundings))


def packed_texts(texts: Sequence[str]) -> str:
    """Return texts as one, empty ones for surroundings that are left out.

    Raises:
        ValueError: a text has the character U+001E.
    """
    if any(_BETWEEN in text for text in texts):
        raise ValueError("a text that goes with a job may not have the character U+001E")
    return _BETWEEN.join(texts)


class _SurroundedCall:
    def __init__(self, fn: Callable[..., Any], surroundings: tuple[Surrounding | None, ...]) -> None:
        self._fn = fn
        self._surroundings = surroundings

    def __call__(self, texts: str, /, *args: Any, **kwargs: Any) -> Any:
        with _within(self._surroundings, texts):
            return self._fn(*args, **kwargs)


class _SurroundedCoroutine(_SurroundedCall):
    async def __call__(self, texts: str, /, *args: Any, **kwargs: Any) -> Any:
        with _within(self._surroundings, texts):
            return await self._fn(*args, **kwargs)


@contextmanager
def _within(surroundings: Sequence[Surrounding | None], texts: str) -> Iterator[None]:
    """Context manager: enter surroundings. What goes wrong in them is logged: it is not the user's code that failed."""
    stack, found = ExitStack(), list[Any]()
    for surrounding, text in zip(surroundings, texts.split(_BETWEEN), strict=True):
        if text and surrounding is not None:
            try:
                found.append(stack.enter_context(surrounding(text)))
            except Exception:
                logger.exception("an observer's surroundings of a job could not be entered")
    token = observers_here.set(tuple(given for given in found if hasattr(given, "observing")))
    try:
        yield
    finally:
        observers_here.reset(token)
        try:
            stack.close()
        except Exception:
            logger.exception("an observer's surroundings of a job could not be left")
