"""Types, messages and tracebacks of exceptions as text, for all that belong together by one look at each.

`traceback.TracebackException` looks at an exception, its causes and the members of groups, each once, and cuts cycles.
A text of every one of these is taken from it: the `__str__` of a user's class may take its time.
"""

from traceback import TracebackException
from types import TracebackType

from grainlike._tracebacks import traceback_of, users_part
from grainlike.errors import GrainlikeError

__all__ = ["ErrorTexts", "shortened"]

_LONGEST = 64 * 1024

_MOST = 20_000
"""Most exceptions of one traceback. A group that is a member of several stands in each, so there may be very many."""

_SUGGESTING = (NameError, AttributeError, ImportError)
"""Types to whose messages a traceback adds what may have been meant."""

_NO_TEXT = "<exception str() failed>"
"""The message in a traceback of an exception whose `__str__` raises."""


class ErrorTexts:
    """Texts of `error` and of those that belong to it. A user's class may raise what is `hostile` at every look."""

    def __init__(self, error: BaseException, hostile: tuple[type[BaseException], ...]) -> None:
        self._hostile = hostile
        self._looks: dict[int, tuple[BaseException, TracebackException | str]] = {}
        """By the exception's `id`; with the exception, whose id no other has meanwhile."""
        self._tracebacks: dict[tuple[int, bool], str] = {}
        self._look(error)

    def message(self, error: BaseException) -> str:
        """Return the text of an exception, an exact string; never raises."""
        look = self._look(error)
        if isinstance(look, TracebackException) and not issubclass(type(error), _SUGGESTING):
            text = str.__str__(str(look))  # a user's subclass would not travel as text
            if text != _NO_TEXT:
                return text
        try:
            return str.__str__(str(error))
        except self._hostile:
            return "<its text cannot be made>"

    def traceback(self, error: BaseException, *, chain: bool = True) -> str:
        """Return the traceback of an exception, `chain`: with those of its causes; never raises."""
        key = id(error), chain
        if key not in self._tracebacks:
            look = self._look(error)
            self._tracebacks[key] = look if isinstance(look, str) else self._formatted(look, chain=chain)
        return self._tracebacks[key]

    def _look(self, error: BaseException) -> TracebackException | str:
        """Return what is known of an exception, or why nothing can be."""
        known = self._looks.get(id(error))
        if known is not None:
            return known[1]
        look: TracebackException | str
        try:
            if not _has_an_end(error):
                look = f"<the traceback cannot be made: it has more than {_MOST:,} exceptions>\n"
            else:
                look = TracebackException(type(error), error, _shown_part(error), compact=True)
                self._know_all(error, look)
        except self._hostile as problem:
            look = f"<the traceback cannot be made: {type(problem).__name__}>\n"
        self._looks[id(error)] = error, look
        return look

    def _know_all(self, error: BaseException, look: TracebackException) -> None:
        """Keep the looks at all that belong to an exception."""
        found = [(error, look)]
        while found:
            error, look = found.pop()
            self._looks.setdefault(id(error), (error, look))
            _leave_out_ours(error, look)
            members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
            found += zip(members, look.exceptions or (), strict=False)
            for other, seen in ((error.__cause__, look.__cause__), (error.__context__, look.__context__)):
                if other is not None and seen is not None:
                    found.append((other, seen))

    def _formatted(self, look: TracebackException, *, chain: bool) -> str:
        try:
            return shortened("".join(look.format(chain=chain)), _LONGEST)
        except self._hostile as problem:
            return f"<the traceback cannot be made: {type(problem).__name__}>\n"


def shortened(text: str, most: int) -> str:
    """Return a text, without its middle if it has more than `most` characters."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}\n[... left out ...]\n{text[-half:]}"


def _has_an_end(error: BaseException) -> bool:
    """Return True if a traceback of the exception has at most `_MOST`, in the order in which Python looks at them."""
    seen = {id(error)}
    found = [error]
    for one in found:  # it grows meanwhile
        if isinstance(one, BaseExceptionGroup):
            found += one.exceptions
            seen.update(map(id, one.exceptions))
        for other in (one.__cause__, one.__context__):
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                found.append(other)
        if len(found) > _MOST:
            return False
    return True


def _leave_out_ours(error: BaseException, look: TracebackException) -> None:
    """Leave out of a traceback the frames of grainlike that called the user's code."""
    whole, shown = _length(traceback_of(error)), _length(_shown_part(error))
    if len(look.stack) == whole:  # else only some frames are told
        del look.stack[: whole - shown]


def _length(trace: TracebackType | None) -> int:
    length = 0
    while trace is not None:
        length, trace = length + 1, trace.tb_next
    return length


def _shown_part(error: BaseException) -> TracebackType | None:
    """Return the traceback without the frames of grainlike that called the user's code. An error that grainlike raises
    on purpose, beside the user's code, has none: its words say it all.
    """
    part = users_part(error.__traceback__)
    return part if part or isinstance(error, GrainlikeError) else error.__traceback__
