"""Base of iterators that are read with `async for` alone: a plain `for` or an `await` raises, and names the right
form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NoReturn

__all__ = ["OnlyAsync"]


class OnlyAsync:
    """An asynchronous iterator that `made_by` gives."""

    __slots__ = ()

    made_by: ClassVar[str]

    if not TYPE_CHECKING:  # to a type checker, both are wrong

        def __iter__(self) -> NoReturn:
            raise TypeError(
                f"what {self.made_by} gives comes as it is ready: write `async for x in {self.made_by}(...)`"
            )

        def __await__(self) -> NoReturn:
            raise TypeError(f"what {self.made_by} gives is many values: write `async for x in {self.made_by}(...)`")
