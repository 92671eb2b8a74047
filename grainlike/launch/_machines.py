"""Machines of a pool by SSH: which have a block, and which are put aside for a while because they failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from grainlike.dialects import ListedBlock

__all__ = ["ASIDE_S", "LONGEST_ASIDE_S", "LOST_S", "Machines"]

ASIDE_S = 30.0
LONGEST_ASIDE_S = 900.0
"""Time for which a machine that has failed is not tried, which doubles from time to time."""

LOST_S = 120.0
"""Time without an answer after which the blocks of a machine are taken for ended."""


@dataclass(slots=True)
class _Machine:
    """State of a machine.

    Attributes:
        failures: how often in a row it has failed.
        failed_at: time at which it failed last, which is its place in the queue; 0: it never has.
        until: time before which it is not tried.
        words: why it failed.
        unreachable: True if it was not reached: its next answer makes up for that.
        silent_since: time since which it gives no answer; None: it gave the last one.
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
        native: its id; empty: not known.
        after: number of the last question before its submission was answered; None: it has not been yet.
    """

    machine: str
    native: str
    after: int | None


@dataclass(slots=True)
class Machines:
    """Book of machines. Times are in seconds, and never go back.

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
        """Have these machines from now on. Blocks on others stay in the book until they have ended."""
        self._names = tuple(names)
        for name in self._names:
            self._known.setdefault(name, _Machine())

    def remember(self, block: str, native: str, machine: str) -> None:
        """Note a block of an earlier head, whose machine is known."""
        if machine in self._known and block not in self._places:
            self._places[block] = _Place(machine, native, self._questions)

    # --- submissions -------------------------------------------------------------------------------------------------

    def take(self, block: str, now: float) -> str | None:
        """Give a block a machine: one that never failed, else the one that failed longest ago; None: there is none."""
        found = min(self._free(now), key=lambda name: self._known[name].failed_at, default=None)
        if found is not None:
            self._places[block] = _Place(found, "", None)
        return found

    def _free(self, now: float) -> list[str]:
        used = {place.machine for place in self._places.values()}
        return [name for name in self._names if name not in used and now >= self._known[name].until]

    def is_any_free(self, now: float) -> bool:
        """Return True if there is a machine to try now."""
        return bool(self._free(now))

    @property
    def has_blocks(self) -> bool:
        """True if there is a block on one of them, or may be."""
        return bool(self._places)

    def why_none(self) -> str:
        """Return what keeps the machines without a block from getting one."""
        used = {place.machine for place in self._places.values()}
        said = [f"{name}: {self._known[name].words}" for name in self._names if name not in used]
        return "\n".join(said) or f"all of {len(used)} machines have a block"

    def taken(self, block: str, native: str) -> None:
        """Note that a machine has taken its block."""
        if block in self._places:
            self._places[block].native = native
            self._known[self._places[block].machine] = _Machine()
            self.unclear(block)

    def unclear(self, block: str) -> None:
        """Note that nobody knows if a machine has taken its block: its next listing will tell."""
        if block in self._places:
            self._places[block].after = self._questions

    def release(self, block: str) -> None:
        """Forget a block that is nowhere."""
        self._places.pop(block, None)

    def failed(self, name: str, words: str, now: float, *, unreachable: bool = False) -> None:
        """Put a machine aside for a while, and at the end of the queue."""
        machine = self._known[name]
        machine.failed_at, machine.words = now, words
        machine.until = now + min(LONGEST_ASIDE_S, ASIDE_S * 2.0 ** min(machine.failures, 10))
        machine.failures += 1
        machine.unreachable = unreachable

    def ended(self, name: str, block: str, now: float) -> None:
        """Note that a machine tells that its block has ended, be it before its submission was answered; it goes to the
        end of the queue.
        """
        self._known[name].failed_at = now
        if block in self._places and self._places[block].machine == name:
            del self._places[block]

    def try_all(self) -> None:
        """Put none aside any more; their order stays."""
        for machine in self._known.values():
            machine.until = 0.0

    # --- listings ----------------------------------------------------------------------------------------------------

    def ask(self, now: float) -> tuple[int, list[str]]:
        """Return the number of a question, and whom to ask: those with blocks, and those that are not put aside.

        Where all are put aside, all are asked: one of them may answer again.
        """
        self._questions += 1
        used = {place.machine for place in self._places.values()}
        wanted = [name for name in self._names if now >= self._known[name].until]
        asked = [*used, *(name for name in wanted if name not in used)]
        return self._questions, asked or list(self._names)

    def silent(self, name: str, words: str, now: float) -> None:
        """Note that a machine gave no answer."""
        machine = self._known[name]
        if machine.silent_since is None:
            machine.silent_since = now
        if now >= machine.until:
            self.failed(name, words, now, unreachable=True)
        machine.words = words

    def answered(self, name: str, question: int, found: Mapping[str, str], mine: AbstractSet[str]) -> None:
        """Take the blocks that a machine has, with their ids; those of `mine` that came there before and are not
        among them have ended.
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
            if found[block]:  # one that has not begun is told by all that share its directory
                place.machine, place.native = name, found[block]

    def on_silent(self, now: float) -> Iterator[ListedBlock]:
        """Yield a row for each block whose machine gave no answer: it is as it was, but not for ever."""
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
