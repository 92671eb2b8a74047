"""Validation of messages from workers and clients: a message is refused as a whole before anything follows from it.

Decoding has checked the type of every field. Here columns are checked for their lengths, numbers for their ranges, and
references for what they refer to, so that no message can fail halfway, with part of it done.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from math import isfinite

from grainlike.errors import ProtocolError
from grainlike.wire import (
    RECORD_BYTES,
    AskDepart,
    AskHistory,
    AskJobs,
    Blocked,
    Buffer,
    Code,
    Completed,
    Evicted,
    Frame,
    Halted,
    Hello,
    Items,
    LeaseStart,
    LeaseWait,
    LoggedRecords,
    Message,
    Output,
    OutputStream,
    OwnValues,
    Pulled,
    Report,
    Stored,
    Submit,
    Wait,
    checked_pattern,
)

__all__ = ["check_data", "check_frames", "check_hello", "refusal_of_question"]

_CODE_MOST = max(Code)
_WAIT_MOST = max(Wait)
_STREAM_MOST = max(OutputStream)
_PATTERNS_MOST = 1000
_BYTES_MOST = 1 << 50
"""More than any machine has."""
_ADDRESS_MOST = 300
_KEY_BYTES = 16
_SECONDS_MOST = 1e9
"""Times beyond these 31 years, on the clock of any machine, are none: sums of them would lie on no calendar."""


def check_hello(hello: Hello) -> None:
    """Check the introduction of a worker to a head that may be started again.

    Raises:
        ProtocolError: its conversation would not outlive the link.
    """
    if hello.received < 0:
        raise ProtocolError(
            f"worker {hello.name!r} cannot connect again (received={hello.received}), and this head keeps a journal: "
            "it takes only workers that can resume with the next head"
        )


def check_data(hello: Hello) -> None:
    """Check where the data server of a worker is said to be.

    Raises:
        ProtocolError: that is no address to connect to, or its key is none.
    """
    if not hello.data:
        return
    from grainlike.net import TcpAddress, parse_address  # a worker in the program has no address

    try:
        address = parse_address(hello.data)
    except ValueError:
        address = None
    named = len(hello.data) <= _ADDRESS_MOST and hello.data.isprintable() and len(hello.data_key) == _KEY_BYTES
    if not named or not isinstance(address, TcpAddress) or not address.port or address.is_wildcard:
        raise ProtocolError(f"worker {hello.name!r} has no data server at {hello.data[:_ADDRESS_MOST]!r}")


def check_frames(frames: Iterable[Frame], shapes: Container[int], functions: Container[bytes] | None) -> None:
    """Check the frames of one read of a link.

    Args:
        frames: messages with their buffers, in order.
        shapes: the numbers of the classes that workers were sent.
        functions: the digests of the functions whose bytes the sender has brought; None where that does not matter.

    Raises:
        ProtocolError: a message is invalid; the text has which and why.
    """
    brought: set[bytes] = set()
    for message, buffers in frames:
        match message:
            case Report():
                _check_report(message, buffers, shapes)
            case Items():
                _check_buffers(message.data, message.counts, len(buffers))
            case Output():
                _check_lengths("Output", len(message.data), message.streams)
                _check_range("stream", message.streams, 0, _STREAM_MOST)
            case LoggedRecords():
                _check_records(message)
            case OwnValues():
                _check_lengths("OwnValues", len(message.values), message.sizes)
                _check_range("size", message.sizes, 1, _BYTES_MOST)
            case Evicted():
                _check_lengths("Evicted", len(message.values), message.attempts)
            case Stored():
                _check_range("size", [message.spilled, message.over], 0, _BYTES_MOST)
            case Blocked():
                _check_seconds("Blocked", [message.seconds])
            case Halted():
                _check_seconds("Halted", [process.seconds for process in message.processes])
            case Pulled():
                _check_lengths("Pulled", len(message.transfers), message.at)
            case Submit():
                _check_nested(message, buffers, functions, brought)
            case _:
                pass


def refusal_of_question(question: Message) -> str:
    """Return why the patterns in a question are more than a head compares, whatever link it came over; else empty."""
    match question:
        case AskDepart(patterns=patterns):
            pass
        case AskHistory(name=name, error=text, worker=worker):
            patterns = [name, text, worker]
        case AskJobs(name=name):
            patterns = [name]
        case _:
            return ""
    if len(patterns) > _PATTERNS_MOST:
        return f"a question has at most {_PATTERNS_MOST} patterns; this has {len(patterns):,}"
    try:
        for pattern in patterns:
            checked_pattern(pattern)
    except ValueError as error:
        return str(error)
    return ""


def _check_records(message: LoggedRecords) -> None:
    _check_lengths("LoggedRecords", len(message.records), message.jobs, message.attempts)
    longest = max(map(len, message.records), default=0)
    if longest > RECORD_BYTES:
        raise ProtocolError(f"a record of a job has {longest} bytes, and no more than {RECORD_BYTES} may be sent")


def _check_report(report: Report, buffers: Sequence[Buffer], shapes: Container[int]) -> None:
    seconds = [report.sent_at]
    for start in report.started:
        _check_start(start, shapes)
        seconds.append(start.at)
    own = 0
    for completed in report.completed:
        own += _check_completed(completed)
        seconds += completed.sent_at, *completed.begun, *completed.wall, *completed.cpu
    _check_seconds("Report", seconds)
    if own != len(buffers):
        raise ProtocolError(f"a report declares {own} buffers, the frame has {len(buffers)}")
    for wait in report.waits:
        _check_wait(wait)


def _check_start(start: LeaseStart, shapes: Container[int]) -> None:
    if start.cls not in shapes:
        raise ProtocolError(f"a lease is of class {start.cls}, which no worker was told of")
    jobs, attempts = len(start.jobs), len(start.attempts)
    if start.lease < 1 or not jobs or attempts != jobs:
        raise ProtocolError(f"lease {start.lease} of {jobs} jobs in {attempts} attempts cannot begin")


def _check_wait(wait: LeaseWait) -> None:
    _check_range("wait", [wait.waits], 0, _WAIT_MOST)


def _check_completed(completed: Completed) -> int:
    """Check all of it but its times; return how many buffers it declares."""
    rows, counts = len(completed.jobs), completed.counts
    columns = (completed.attempts, completed.codes, completed.begun, completed.wall, completed.cpu, completed.rss)
    _check_lengths("Completed", rows, *columns, completed.data)
    if any(completed.codes):  # mostly all have succeeded
        _check_range("code", completed.codes, 0, _CODE_MOST)
    own = sum(counts)
    if counts:
        _check_buffers(completed.data, counts, own)
    if completed.sizes:
        _check_lengths("Completed", rows, completed.sizes)
        _check_range("size", completed.sizes, 0, _BYTES_MOST)
    if completed.wanted:
        _check_range("size", list(completed.wanted.values()), 1, _BYTES_MOST)
    return own


def _check_nested(
    message: Submit, buffers: Sequence[Buffer], functions: Container[bytes] | None, brought: set[bytes]
) -> None:
    _check_lengths("Submit", len(message.children), message.fns, message.data)
    if message.names:
        _check_lengths("Submit", len(message.children), message.names)
    if message.ages:
        _check_lengths("Submit", len(message.children), message.ages)
    if message.sizes:
        _check_lengths("Submit", len(message.children), message.sizes)
    if message.inputs:
        _check_lengths("Submit", len(message.children), message.inputs)
    if message.needs:
        _check_graph(message)
    if message.parent and (message.inputs or any(spec.stays for spec in message.functions)):
        raise ProtocolError("calls of a job refer to no values, and their values do not stay")
    _check_range("function", message.fns, 0, len(message.functions) - 1)
    here = sum(spec.here for spec in message.functions)
    if here > len(buffers):
        raise ProtocolError(f"{here} functions come with {len(buffers)} buffers")
    for spec in message.functions:
        if spec.here:
            brought.add(spec.digest)
        elif functions is not None and spec.digest not in functions and spec.digest not in brought:
            raise ProtocolError(f"the bytes of function {spec.name!r} have never come")
    _check_buffers(message.data, message.counts, len(buffers) - here)


def _check_graph(message: Submit) -> None:
    """Check that calls of a graph are a client's own, and need earlier ones alone: so none waits for itself."""
    _check_lengths("Submit", len(message.children), message.needs)
    if message.parent or len(set(message.children)) < len(message.children):
        raise ProtocolError("calls of graphs are of clients, each with a number of its own")
    if any(spec.stream for spec in message.functions):
        raise ProtocolError("a stream is no part of a graph")
    for child, needs in zip(message.children, message.needs, strict=True):
        if needs and max(needs) >= child:
            raise ProtocolError(f"call {child} needs call {max(needs)}, which is not before it")


def _check_lengths(what: str, rows: int, *columns: Sequence[object]) -> None:
    for column in columns:
        if len(column) != rows:
            raise ProtocolError(f"a column of {what} has {len(column)} rows of {rows}")


def _check_buffers(data: Sequence[bytes], counts: Sequence[int], buffers: int) -> None:
    """Check that the columns of packed parcels go with so many buffers; see `unpack_parcels`."""
    if counts and (len(counts) != len(data) or min(counts) < 0 or sum(counts) != buffers):
        raise ProtocolError(f"{len(data)} payloads declare {sum(counts)} buffers in {len(counts)} rows, of {buffers}")
    if not counts and buffers:
        raise ProtocolError(f"{buffers} buffers belong to no payload")


def _check_range(what: str, numbers: Sequence[int], least: int, most: int) -> None:
    if numbers and not (least <= min(numbers) and max(numbers) <= most):
        raise ProtocolError(f"there is no {what} {min(numbers) if min(numbers) < least else max(numbers)}")


def _check_seconds(what: str, seconds: Sequence[float]) -> None:
    if seconds and not (isfinite(sum(seconds)) and min(seconds) > -_SECONDS_MOST and max(seconds) < _SECONDS_MOST):
        raise ProtocolError(f"a time in {what} is out of range")
