"""What an executor tells about a node that it runs."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from grainlike.resources import Allocation, Receipt, Usage

__all__ = ["Record"]


class Record(Protocol):
    """The facts behind `info(r_)` and the notebook view. Executors set one on `Node.record`."""

    @property
    def worker(self) -> "str | None":
        """The worker that has the job, or had it last."""

    @property
    def allocation(self) -> "Allocation | None":
        """What the job was given."""

    @property
    def attempt(self) -> int:
        """1 for the first attempt, 0 before it."""
        ...

    @property
    def receipt(self) -> "Receipt | None":
        """What was enforced, once the job has finished."""

    @property
    def usage(self) -> "Usage | None":
        """What was used, once the job has finished."""

    @property
    def began(self) -> float | None:
        """When the job started, on this process's monotonic clock, in seconds; None before it does."""

    @property
    def ended(self) -> float | None:
        """When it ended, on the same clock; None before it does."""

    def elapsed_s(self) -> float | None:
        """Seconds that the job has run, or ran; None before it starts."""

    def why_pending(self) -> str | None:
        """One sentence on what a pending job waits for; None for any other."""
