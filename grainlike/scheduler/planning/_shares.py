"""Fair shares between the clients of one head: the one that uses least goes first.

Use is counted in cores held (one for a job that asks for none), by what runs now: a client that was away has no claim
on the past, and one alone has all. Within one client, priorities are strict.
"""

from __future__ import annotations

from grainlike.scheduler._records import Shape

__all__ = ["Shares"]


class Shares:
    """Cores that each client uses now."""

    def __init__(self) -> None:
        self._held: dict[int, int] = {}

    def used(self, client: int) -> int:
        """Return the cores held, in billionths."""
        return self._held.get(client, 0)

    def take(self, client: int, shape: Shape) -> None:
        """Count the start of a job."""
        self._held[client] = self._held.get(client, 0) + shape.share

    def give(self, client: int, shape: Shape) -> None:
        """Count the end of a job."""
        self._held[client] -= shape.share
