"""Listener of a head without a program: of its daemon, and of one that is only read from its journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grainlike.graph import Node

__all__ = ["NoListener"]


class NoListener:
    """Receiver of outcomes where no job is the program's own."""

    def succeeded(self, node: Node, value: object) -> None:
        """A job gave a value."""

    def all_succeeded(self, nodes: Sequence[Node], values: Sequence[object]) -> None:
        """The jobs of these nodes gave values."""

    def stayed(self, node: Node, job: int, size: int) -> None:
        """A job gave a value that stays at workers."""

    def failed(self, node: Node, error: BaseException) -> None:
        """A job will give no value."""
