"""Facts of a node that its executor knows: what `info(r_)` and the notebook view show."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grainlike.resources import Allocation, Receipt, Usage

__all__ = ["Record"]


class Record:
    """The facts behind `info(r_)`, by the names of its fields. Executors set one on `Node.record`.

    Each fact has its default here; a subclass overrides those that it knows, as properties or in slots.
    """

    __slots__ = ()

    @property
    def job(self) -> int:
        """The number of the job; 0 for a call that is none, and until it has one."""
        return 0

    @property
    def worker(self) -> "str | None":
        """The worker that has the job, or had it last."""
        return None

    @property
    def allocation(self) -> "Allocation | None":
        """Return what the job was given."""
        return None

    @property
    def attempt(self) -> int:
        """1 for the first attempt, 0 before it."""
        return 0

    @property
    def size(self) -> int | None:
        """Return how many bytes its value has as it travels; None before it has one, or where that is unknown."""
        return None

    @property
    def where(self) -> tuple[str, ...]:
        """Return the names of the workers that have a whole replica of its value, sorted."""
        return ()

    @property
    def recomputed(self) -> int:
        """Return how often it ran again because its value was lost."""
        return 0

    @property
    def receipt(self) -> "Receipt | None":
        """Return what was enforced, once the job has finished."""
        return None

    @property
    def usage(self) -> "Usage | None":
        """Return what was used, once the job has finished."""
        return None

    def arguments(self) -> "tuple[tuple[Any, ...], dict[str, Any]] | None":
        """Return the arguments of a call that was sent, if they are plain and small; None where that is unknown."""
        return None

    @property
    def began(self) -> float | None:
        """Return when the job started, on this process's monotonic clock, in seconds; None before it does."""
        return None

    @property
    def ended(self) -> float | None:
        """Return when it ended, on the same clock; None before it does."""
        return None

    def elapsed_s(self) -> float | None:
        """Return the seconds that the job has run, or ran; None before it starts."""
        return None

    def why_pending(self) -> str | None:
        """Return one sentence on what a pending job waits for; None for any other."""
        return None
