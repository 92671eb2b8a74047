"""Machines of a pool by SSH: which machines have a block, and which are not tried for a while because they failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from grainlike.dialects import ListedBlock

__all__ = ["ASIDE_S", "LONGEST_ASIDE_S", "LOST_S", "Machines"]

ASIDE_S = 30.0
LONGEST_ASIDE_S = 900.0
"""Longest time for which a machine that has failed is not tried; the time doubles with each failure."""

LOST_S = 120.0
"""Seconds without an answer after which the blocks of a machine count as ended."""


@dataclass(slots=True)
class _Machine:
    """State of a machine.

    Attributes:
        failures: how many times in a row the machine has failed.
        failed_at: time of the last failure, which sets the place in the queue; 0 if it never failed.
        until: time before which it is not tried.
        words: why it failed.
        unreachable: True if it was not reached; its next answer ends that.
        silent_since: time since which it gives no answer; None if it gave the last one.
    """

    failures: int = 0
    failed_at: float = 0.0
    until: float = 0.0
    words: str = ""
    unreachable: bool = False
    silent_since: float | None = None


@dataclass(slots=True)
class _Place:
    """Block on a machine.

    Attributes:
        machine: its machine.
        native: its id; empty if unknown.
        after: number of the last question before its submission was answered; None without an answer yet.
    """

    machine: str
    native: str
    after: int | None


@dataclass(slots=True)
class Machines:
    """Records of machines. Times are in seconds, and never go back.

    Example::

        >>> machines = Machines()
        >>> machines.use(["n1", "n2"])
        >>> machines.failed("n1", "Permission denied", 1.0)
        >>> machines.take("gl1a2b3c4d-1", 2.0), machines.take("gl1a2b3c4d-2", 3.0), machines.take("gl1a2b3c4d-2", 99.0)
        ('n2', None, 'n1')
    """

    _known: dict[str, _Machine] = field(default_factory=dict[str, _Machine])
    _names: tuple[str, ...] = ()
    _places: dict[str, _Place] = field(default_factory=dict[str, _Place])
    _questions: int = 0

    def use(self, names: Iterable[str]) -> None:
        """Use these machines from now on. Blocks on other machines are kept until they have ended."""
        self._names = tuple(names)
        for name in self._names:
            self._known.setdefault(name, _Machine())

    def remember(self, block: str, native: str, machine: str) -> None:
        """Record a block of an earlier head, whose machine is known."""
        if machine in self._known and block not in self._places:
            self._places[block] = _Place(machine, native, self._questions)

    # --- submissions -------------------------------------------------------------------------------------------------

    def take(self, block: str, now: float) -> str | None:
        """Give a block a machine: one that never failed, or the one that failed longest ago; None without a machine."""
        found = min(self._free(now), key=lambda name: self._known[name].failed_at, default=None)
        if found is not None:
            self._places[block] = _Place(found, "", None)
        return found

    def _free(self, now: float) -> list[str]:
        used = {place.machine for place in self._places.values()}
        return [name for name in self._names if name not in used and now >= self._known[name].until]

    def is_any_free(self, now: float) -> bool:
        """Return True if a machine can be tried now."""
        return bool(self._free(now))

    @property
    def has_blocks(self) -> bool:
        """True if a machine has a block, or may have one."""
        return bool(self._places)

    def why_none(self) -> str:
        """Return why the machines without a block get none."""
        used = {place.machine for place in self._places.values()}
        said = [f"{name}: {self._known[name].words}" for name in self._names if name not in used]
        return "\n".join(said) or f"all of {len(used)} machines have a block"

    def taken(self, block: str, native: str) -> None:
        """Record that a machine has accepted its block."""
        if block in self._places:
            self._places[block].native = native
            self._known[self._places[block].machine] = _Machine()
            self.unclear(block)

    def unclear(self, block: str) -> None:
        """Record that a machine may have accepted its block; the machine's next listing will tell."""
        if block in self._places:
            self._places[block].after = self._questions

    def release(self, block: str) -> None:
        """Forget a block that no machine has."""
        self._places.pop(block, None)

    def failed(self, name: str, words: str, now: float, *, unreachable: bool = False) -> None:
        """Do not try a machine for a while, and put it at the end of the queue."""
        machine = self._known[name]
        machine.failed_at, machine.words = now, words
        machine.until = now + min(LONGEST_ASIDE_S, ASIDE_S * 2.0 ** min(machine.failures, 10))
        machine.failures += 1
        machine.unreachable = unreachable

    def ended(self, name: str, block: str, now: float) -> None:
        """Record that a machine says that its block has ended, perhaps before its submission was answered; put the
        machine at the end of the queue.
        """
        self._known[name].failed_at = now
        if block in self._places and self._places[block].machine == name:
            del self._places[block]

    def try_all(self) -> None:
        """Try all machines again; their order stays."""
        for machine in self._known.values():
            machine.until = 0.0

    # --- listings ----------------------------------------------------------------------------------------------------

    def ask(self, now: float) -> tuple[int, list[str]]:
        """Return the number of a question, and the machines to ask: those with blocks, and those that may be tried.

        If none may be tried, all are asked, because one of them may answer again.
        """
        self._questions += 1
        used = {place.machine for place in self._places.values()}
        wanted = [name for name in self._names if now >= self._known[name].until]
        asked = [*used, *(name for name in wanted if name not in used)]
        return self._questions, asked or list(self._names)

    def silent(self, name: str, words: str, now: float) -> None:
        """Record that a machine gave no answer."""
        machine = self._known[name]
        if machine.silent_since is None:
            machine.silent_since = now
        if now >= machine.until:
            self.failed(name, words, now, unreachable=True)
        machine.words = words

    def answered(self, name: str, question: int, found: Mapping[str, str], mine: AbstractSet[str]) -> None:
        """Record the blocks that a machine has, with their ids. Blocks of `mine` that were there before the question
        and are not among them have ended.
        """
        machine = self._known[name]
        machine.silent_since = None
        if machine.unreachable:
            machine.failures, machine.until, machine.unreachable = 0, 0.0, False
        for block, place in list(self._places.items()):
            before = place.after is not None and place.after < question
            if place.machine == name and before and block not in found:
                del self._places[block]
        for block in found.keys() & mine:
            place = self._places.setdefault(block, _Place(name, "", question))
            if found[block]:  # all machines that share a directory list a block that has not begun
                place.machine, place.native = name, found[block]

    def on_silent(self, now: float) -> Iterator[ListedBlock]:
        """Yield a row for each block whose machine gave no answer: unchanged, until the machine counts as lost."""
        for block, place in self._places.items():
            machine = self._known[place.machine]
            if machine.silent_since is not None:
                lost = now >= machine.silent_since + LOST_S
                words = f"{place.machine}: {machine.words}"
                yield ListedBlock(place.native, block, "ended" if lost else "unknown", words, nodes=(place.machine,))

    def machine_of(self, block: str) -> str | None:
        """Return the machine of a block."""
        return self._places[block].machine if block in self._places else None

    def with_blocks(self) -> set[str]:
        """Return the machines that have a block."""
        return {place.machine for place in self._places.values()}
