"""Large arguments of a program's calls as own values: each leaves the program once, however many calls have it.

Own values are made of ready values (`delayed_value`), and of buffers that several calls of one batch have. In later
batches a buffer is still the same value, while the object that holds it lives and has not changed. For calls that go to
a head elsewhere, they are also made of buffers and streams that one call alone has, for that call only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol
from weakref import ref

from grainlike.graph import LOOKED_AT, READY, Node, RemoteValue, ValueFetcher
from grainlike.payload import (
    SHARED_LEAST,
    STAY_BYTES,
    Payload,
    buffer_reference,
    dump_value,
    have_same_bytes,
    place_of,
    replica_size,
    stream_apart,
)

__all__ = ["OwnArguments", "OwnValueHolder"]

KNOWN_MOST = 1 << 30
"""Most bytes of buffers that are kept for later batches."""

_SCALARS = (int, float, bool, complex, type(None))

_Place = tuple[int, int]
"""Address and length of a buffer."""


class OwnValueHolder(ValueFetcher, Protocol):
    """Fetcher, with only the methods that are needed to make own values here."""

    @property
    def own_most(self) -> int:
        """Bytes of the largest argument that may become an own value; 0 if none may."""
        ...

    def own(self, payload: Payload, value: object) -> RemoteValue:
        """Keep a copy of a payload as an own value, and return the reference to it, with `value`."""
        ...

    def own_payload(self, value: int) -> Payload | None:
        """Return the payload of an own value; None if it is not kept any more."""
        ...


class _KnownBuffer(NamedTuple):
    """Buffer that is a value already: the reference, and the object that holds the buffer."""

    reference: RemoteValue
    holder: ref[object]


class OwnArguments:
    """Makes own values of the large arguments of calls; `holder` keeps them. With `alone`, also of large buffers and
    streams that only one call has. Ready values become own values if they are larger than `least` bytes.

    Example::

        own = OwnArguments(fetcher)
        own.refer(node)                                         # before its arguments are taken
        (first, values), (second, _) = own.share([dump_arguments((array, at), {}, what="f") for at in range(2)])
        own.end_batch()                                         # once the calls were submitted
    """

    def __init__(self, holder: OwnValueHolder, *, alone: bool = False, least: int = STAY_BYTES) -> None:
        self._holder = holder
        self._least = least
        self._alone = alone
        self._known: dict[_Place, _KnownBuffer] = {}
        self._batch: dict[_Place, RemoteValue] = {}
        self.holds: bool = False
        """True if there is something for `end_batch` to release."""

    def refer(self, node: Node) -> None:
        """Make own values of the large ready values that a call needs."""
        for dep in node.deps:
            if dep.function is READY:
                reference = dep.reference
                if reference is None or reference.fetcher is not self._holder:
                    self._look_at(dep)

    def _look_at(self, node: Node) -> None:
        value = node.value
        if type(value) in _SCALARS:
            node.function = LOOKED_AT
            return
        try:
            payload = dump_value(value)
        except Exception:  # noqa: BLE001 - packing the call's arguments raises it again
            return
        if payload.nbytes <= STAY_BYTES:
            node.function = LOOKED_AT
        elif payload.nbytes > self._least and replica_size(payload) <= self._holder.own_most:
            node.refer(self._holder.own(payload, value))

    def share(self, payloads: Sequence[Payload]) -> list[tuple[Payload, list[int]]]:
        """Return the payloads of a batch of calls, with references in place of the buffers that become values, and the
        values to which each payload refers then.
        """
        most = self._holder.own_most
        if not most:
            return [(payload, []) for payload in payloads]
        if self._alone:
            payloads = [stream_apart(one) if SHARED_LEAST <= len(one.data) <= most else one for one in payloads]
        places = [[_place(buffer) for buffer in payload.buffers] for payload in payloads]
        counts: dict[_Place, int] = {}
        for mine in places:
            for place in {place for place in mine if place is not None}:
                counts[place] = counts.get(place, 0) + 1
        return [self._shared(payload, mine, counts, most) for payload, mine in zip(payloads, places, strict=True)]

    def end_batch(self) -> None:
        """Release the values of a batch that was submitted, because its jobs refer to them now."""
        self._batch.clear()
        self.holds = False

    def _shared(
        self, payload: Payload, places: Sequence[_Place | None], counts: dict[_Place, int], most: int
    ) -> tuple[Payload, list[int]]:
        buffers = list(payload.buffers)
        values: dict[int, None] = {}
        for at, place in enumerate(places):
            value = None if place is None else self._value_of(memoryview(buffers[at]), place, counts[place], most)
            if value is not None:
                buffers[at] = buffer_reference(value)
                values[value] = None
        return (Payload(payload.data, tuple(buffers)), list(values)) if values else (payload, [])

    def _value_of(self, buffer: memoryview, place: _Place, count: int, most: int) -> int | None:
        """Return the value for a buffer that `count` calls have; None if it travels: no worker could keep it, or only
        one call has it, and such buffers are no values here.
        """
        alone = Payload(b"", (buffer,))
        if replica_size(alone) > most:
            return None
        reference = self._batch.get(place) or self._known_at(buffer, place)
        if reference is None and (count > 1 or self._alone):
            try:
                reference = self._holder.own(alone, None)
            except MemoryError:  # copying the buffer for its call raises this for that call alone
                return None
            if count > 1:  # else programs that pass on array after array would keep all that live
                self._keep(reference, buffer, place)
        if reference is None:
            return None
        self._batch[place] = reference
        self.holds = True
        return reference.id

    def _known_at(self, buffer: memoryview, place: _Place) -> RemoteValue | None:
        """Return the value of a buffer in an earlier batch, if the buffer has not changed."""
        known = self._known.get(place)
        if known is None:
            return None
        kept = self._holder.own_payload(known.reference.id) if known.holder() is buffer.obj else None
        if kept is not None and have_same_bytes(buffer, memoryview(kept.buffers[0])):
            return known.reference
        self._known.pop(place, None)
        return None

    def _keep(self, reference: RemoteValue, buffer: memoryview, place: _Place) -> None:
        """Keep a value for later batches, while the object lives that holds the buffer."""
        try:
            self._known[place] = _KnownBuffer(reference, ref(buffer.obj, self._forgets(place, reference.id)))
        except TypeError:  # objects of this type cannot have weak references
            return
        while sum(length for _, length in list(self._known)) > KNOWN_MOST:  # any thread may forget some
            self._known.pop(next(iter(self._known)), None)

    def _forgets(self, place: _Place, value: int) -> Callable[[object], None]:
        """Return a function, for any thread, that forgets a value when the object that held the buffer is gone."""
        known = self._known

        def forget(_: object) -> None:
            found = known.get(place)
            if found is not None and found.reference.id == value:
                known.pop(place, None)

        return forget


def _place(buffer: bytes | bytearray | memoryview) -> _Place | None:
    """Return the place of a buffer; None for a small one."""
    view = memoryview(buffer)
    return None if view.nbytes < SHARED_LEAST else place_of(view)
