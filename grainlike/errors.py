"""Exceptions that grainlike raises on purpose.

Each derives from `GrainlikeError` and from the built-in that a caller would already catch::

    GrainlikeError
    ├── ResourceError(RuntimeError)               slots misused: released twice, foreign, over capacity
    │   └── UnsatisfiableError(RuntimeError)      no worker can ever give what was asked for
    ├── ResourceSpecError(ValueError)             a request that is not one
    ├── GraphError(ValueError)                    a placeholder of another executor, a cycle
    │   └── UnknownNameError(KeyError)            a named graph has no job of that name
    ├── SerializationError(TypeError)             an object that cannot travel
    ├── JobTimeoutError(TimeoutError)             a job ran past its limit
    ├── JobMemoryError(MemoryError)               a job took more memory than it asked for
    ├── JobCancelledError(CancelledError)         a job that was cancelled is asked for its value
    ├── WorkerLostError(RuntimeError)             a job's worker or runner died too many times
    │   └── ValueLostError                        the last copy of a value is gone, and it cannot be made again
    ├── HeadLostError(ConnectionError)            the head has exited or is unreachable
    ├── JournalError(OSError)                     the head's journal is damaged, in use, or cannot be written
    ├── BlockEndedError(RuntimeError)             a head takes no more workers of this block
    ├── LaunchError(RuntimeError)                 a batch system refuses a block of workers
    ├── SettingsError(ValueError)                 a file of settings, or a variable, is not right
    ├── SessionError(RuntimeError)                a named session is another program's, or has no more room
    ├── VersionMismatchError(RuntimeError)        the two ends cannot speak to each other
    ├── AuthenticationError(PermissionError)      the other end is not who it must be
    ├── ProtocolError(RuntimeError)               the other end sent what the protocol does not allow
    └── RemoteError(RuntimeError)                 a job's own exception that could not be pickled

`CancelledError` above is `concurrent.futures.CancelledError`, an ordinary exception: it never poses as the
event loop's own cancellation. A job's own exception is none of these: it comes back as its own type.
"""

from collections.abc import Sequence
from concurrent.futures import CancelledError

__all__ = [
    "AuthenticationError",
    "BlockEndedError",
    "GrainlikeError",
    "GraphError",
    "HeadLostError",
    "JobCancelledError",
    "JobMemoryError",
    "JobTimeoutError",
    "JournalError",
    "LaunchError",
    "ProtocolError",
    "RemoteError",
    "ResourceError",
    "ResourceSpecError",
    "SerializationError",
    "SessionError",
    "SettingsError",
    "StoreFullError",
    "UnknownNameError",
    "UnsatisfiableError",
    "ValueLostError",
    "VersionMismatchError",
    "WorkerLostError",
]


class GrainlikeError(Exception):
    """Base of every exception that grainlike raises on purpose."""


class ResourceError(GrainlikeError, RuntimeError):
    """Raised when slots are misused: released twice, released to another pool, or taken over capacity."""


class StoreFullError(ResourceError):
    """Raised when a job's value found no room, in shared memory or on disk, at any worker that could run the job. Names
    the last worker, both sizes, whether the store is too small or in use, what would help, and where the job was tried.
    """


class UnsatisfiableError(ResourceError):
    """Raised when no worker, present or launchable, can ever give what the request asks for."""


class ResourceSpecError(GrainlikeError, ValueError):
    """Raised for a malformed request, offer or quantity; the message names the bad part."""


class GraphError(GrainlikeError, ValueError):
    """Raised for an invalid graph: a placeholder that another executor runs, a cycle, or an unknown name."""


class UnknownNameError(GraphError, KeyError):
    """Raised when a named graph has no job of that name; a `KeyError` too, like that of other mappings."""

    def __str__(self) -> str:
        return Exception.__str__(self)  # a `KeyError` alone shows its message in quotes


class SerializationError(GrainlikeError, TypeError):
    """Raised for an object that cannot be pickled; the message names the argument and the object inside it."""


class JobTimeoutError(GrainlikeError, TimeoutError):
    """Raised when a job ran past its `timeout` and was ended."""


class JobMemoryError(GrainlikeError, MemoryError):
    """Raised when a job took more memory than it asked for, and was ended.

    Attributes:
        asked: bytes that its request named.
        peak: bytes that it held when it was ended, beside what its process had held before it began.
    """

    def __init__(self, message: str = "", asked: int = 0, peak: int = 0) -> None:
        super().__init__(message, asked, peak)
        self.asked = asked
        self.peak = peak

    def __str__(self) -> str:
        return str(self.args[0])


class JobCancelledError(GrainlikeError, CancelledError):
    """Raised for the value of a placeholder whose job was cancelled."""


class WorkerLostError(GrainlikeError, RuntimeError):
    """Raised when a job's worker or runner died under the job too many times: the job is not tried again."""


class ValueLostError(WorkerLostError):
    """Raised when the last replica of a large value is gone, and the value cannot be made again; says why."""


class HeadLostError(GrainlikeError, ConnectionError):
    """Raised when the head has exited, or cannot be reached."""


class JournalError(GrainlikeError, OSError):
    """Raised when a journal is damaged, written by another head, open to other users, or refused by the disk.

    Attributes:
        path: the file or directory that the error is about.
        offset: offset in the file at which the damage begins, in bytes; None if the error has no place in a file.
    """

    def __init__(self, message: str = "", path: str = "", offset: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.offset = offset


class BlockEndedError(GrainlikeError, RuntimeError):
    """Raised in a worker, which ends then, when its head takes no more workers of its block: the block has ended."""


class LaunchError(GrainlikeError, RuntimeError):
    """Raised when a batch system refuses a block of workers, or does not answer.

    Attributes:
        words: the batch system's own words.
        command: words of the command that it was asked by.
        script: the script that would have been run.
    """

    def __init__(self, words: str, command: Sequence[str] = (), script: str = "") -> None:
        super().__init__(words, tuple(command), script)
        self.words = words
        self.command: tuple[str, ...] = tuple(command)
        self.script = script

    def __str__(self) -> str:
        """Return the command's name, where the batch system's words lack it, and those."""
        name = f"{self.command[0]}: " if self.command else ""
        return self.words if self.words.startswith(name) else name + self.words


class SettingsError(GrainlikeError, ValueError):
    """Raised when a file of settings, or a variable, has an unknown key or a wrong value, or others may write it."""


class SessionError(GrainlikeError, RuntimeError):
    """Raised when a named session is in use by another program, or has no room for what was to be kept in it."""


class VersionMismatchError(GrainlikeError, RuntimeError):
    """Raised when protocol, Python or serializer versions of the two ends are incompatible."""


class AuthenticationError(GrainlikeError, PermissionError):
    """Raised when the other end did not prove that it belongs to this cluster."""


class ProtocolError(GrainlikeError, RuntimeError):
    """Raised when the other end sent what the protocol does not allow."""


class RemoteError(GrainlikeError, RuntimeError):
    """Raised in place of a job's exception that could not be pickled, with its type name, message and traceback."""

    def __init__(self, type_name: str, message: str, remote_traceback: str = "") -> None:
        super().__init__(type_name, message, remote_traceback)
        self.type_name = type_name
        self.message = message
        self.remote_traceback = remote_traceback

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}"
