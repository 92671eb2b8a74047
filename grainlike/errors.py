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
    """Base of every exception that grainlike raises on purpose. What a job raises is none: it comes as its own type.

    Catch it where any trouble with resources, workers or the head is met in the same way.

    Example::

        try:
            await (half @ Cores(10_000))(2)
        except GrainlikeError as error:
            print(type(error).__name__)  # UnsatisfiableError
    """


class ResourceError(GrainlikeError, RuntimeError):
    """Raised when slots are misused: released twice, released to another pool, or taken over capacity.

    It is a mistake in the program: release an allocation once, to the pool that gave it, as `pool.hold` does.

    Example::

        >>> pool = ResourcePool({"gpu": 1})
        >>> allocation = pool.try_acquire({"gpu": 1})
        >>> pool.release(allocation)
        >>> pool.release(allocation)
        Traceback (most recent call last):
        ...
        grainlike.errors.ResourceError: <Grant 1: gpu=1> cannot be released: it was released before
    """


class StoreFullError(ResourceError):
    """Raised when a job's value found no room, in shared memory or on disk, at any worker that could run the job. Names
    the last worker, both sizes, whether the store is too small or in use, what would help, and where the job was tried.

    Also raised for a job whose inputs have no room at a worker that is beyond its store, if nothing can free any.

    Give workers larger stores or scratch on disk, give smaller values, or drop placeholders of values that are not
    needed any more.

    Example::

        async with Executor(local=Cores(1), store="100Ki", scratch_limit="0"):
            kept_ = start((zeros @ Cores(1))(8_000_000))
            await wait([kept_])
            try:
                await (zeros @ Cores(1))(8_000_000)
            except StoreFullError as error:
                print(error)
    """


class UnsatisfiableError(ResourceError):
    """Raised when no worker, present or launchable, can ever give what the request asks for.

    The message names what is missing or short, and which worker comes nearest: ask for less, or have such a worker.

    Example::

        try:
            await (half @ Cores(10_000))(2)
        except UnsatisfiableError as error:
            print(error)  # cores=10000 can never be given: too few cores (asked 10000, at most ...)...
    """


class ResourceSpecError(GrainlikeError, ValueError):
    """Raised for a malformed request, offer or quantity, where it is written; the message names the bad part.

    Example::

        >>> Memory("8Gigs")
        Traceback (most recent call last):
        ...
        grainlike.errors.ResourceSpecError: ...
    """


class GraphError(GrainlikeError, ValueError):
    """Raised for an invalid graph: a placeholder that another executor runs, a cycle, or an unknown name.

    The message names the calls. Await a placeholder where it was started, and take one edge out of a cycle.

    Example::

        try:
            dag = Dag.from_edges({"a": half, "b": half}, [("a", "b"), ("b", "a")])
        except GraphError as error:
            print(error)
    """


class UnknownNameError(GraphError, KeyError):
    """Raised when a named graph has no job of that name; a `KeyError` too, like that of other mappings.

    The message suggests the nearest name that the graph has.

    Example::

        dag = Dag()
        dag.add("fit", half, 2)
        try:
            dag["fti"]
        except UnknownNameError as error:
            print(error)
    """

    def __str__(self) -> str:
        return Exception.__str__(self)  # a `KeyError` alone shows its message in quotes


class SerializationError(GrainlikeError, TypeError):
    """Raised for an object that cannot be pickled; the message names the argument and the object inside it.

    Make such an object (a lock, a socket, an open file) in the job itself, and pass what it is made from.

    Example::

        try:
            await (half @ Cores(1))(threading.Lock())
        except SerializationError as error:
            print(error)
    """

    _in_result = ""
    """Advice where the object is in the value of a job, and in no argument; empty if it is the same."""


class JobTimeoutError(GrainlikeError, TimeoutError):
    """Raised when a job ran past its `timeout`, in seconds, or past its `WallTime`, and was ended.

    Give it more time, or try it again with `retries=Retry(..., on=(JobTimeoutError,))`.

    Example::

        @delayed(timeout=0.05)
        async def listen():
            await anyio.sleep_forever()

        try:
            await (listen @ Cores(1))()
        except JobTimeoutError as error:
            print(error)  # listen ran past its timeout of 0.05 s
    """


class JobMemoryError(GrainlikeError, MemoryError):
    """Raised when a job took more memory than it asked for, and was ended.

    Ask for more, as `Memory("4G")`, or let its request grow with each attempt: `Memory("4G", grow=2, max="64G")`.

    Attributes:
        asked: bytes that its request named.
        peak: bytes that it held when it was ended, beside what its process had held before it began.

    Example::

        try:
            await (zeros @ (Cores(1) & Memory("50Mi")))(2 * 10**9)
        except JobMemoryError as error:
            print(error.asked, error.peak > error.asked)  # 52428800 True
    """

    def __init__(self, message: str = "", asked: int = 0, peak: int = 0) -> None:
        super().__init__(message, asked, peak)
        self.asked = asked
        self.peak = peak

    def __str__(self) -> str:
        return str(self.args[0])


class JobCancelledError(GrainlikeError, CancelledError):
    """Raised for the value of a placeholder whose job was cancelled.

    It is an ordinary exception: a task that awaits the placeholder is not cancelled itself. Call the function again
    for another try.

    Example::

        r_ = start((half @ Cores(1))(2))
        cancel(r_)
        try:
            await r_
        except JobCancelledError as error:
            print(error)
    """


class WorkerLostError(GrainlikeError, RuntimeError):
    """Raised when a job's worker or runner died under the job too many times: the job is not tried again.

    The message says how it died. A segmentation fault, `os._exit` and the kernel's out-of-memory killer end a process;
    `retries=Retry(losses=5)` forgives more losses.

    Example::

        try:
            await (crash @ Cores(1))()  # ends its process
        except WorkerLostError as error:
            print(error)
    """


class ValueLostError(WorkerLostError):
    """Raised when the last replica of a large value is gone, and the value cannot be made again; says why.

    A value is made again by its call, unless that may run once only (`Retry(0, losses=0)`). `replicate` keeps a second
    replica of it, or a copy at a URL.

    Example::

        zeros_ = start((zeros @ Cores(1))(8_000_000))
        try:
            print(await (len_of @ Cores(1))(zeros_))
        except ValueLostError as error:
            print(error)
    """


class HeadLostError(GrainlikeError, ConnectionError):
    """Raised when the head has exited, or cannot be reached.

    Start one (`grainlike head start`), or wait for the next one with `connect(wait=60, reconnect=True)`. Jobs of a
    session may have ended meanwhile, and are found by their names.

    Example::

        try:
            async with connect("tcp://127.0.0.1:9", insecure=True):
                ...
        except HeadLostError as error:
            print(error)
    """


class JournalError(GrainlikeError, OSError):
    """Raised when a journal is damaged, written by another head, open to other users, or refused by the disk.

    A head whose disk refuses its journal runs on, and fails new jobs with it: make room there, and start it again.
    `grainlike journal check` shows what is wrong with the files.

    Attributes:
        path: the file or directory that the error is about.
        offset: offset in the file at which the damage begins, in bytes; None if the error has no place in a file.

    Example::

        try:
            await (half @ Cores(1))(2)
        except JournalError as error:
            print(error, error.path, error.offset)
    """

    def __init__(self, message: str = "", path: str = "", offset: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.offset = offset


class BlockEndedError(GrainlikeError, RuntimeError):
    """Raised in a worker, which ends then, when its head takes no more workers of its block: the block has ended.

    A program does not meet it: its jobs run elsewhere. The worker says it in the log of its block and exits with 0.

    Example::

        for block in executor.blocks():  # a block that has ended is not there
            print(block.label, block.state, block.log)
    """


class LaunchError(GrainlikeError, RuntimeError):
    """Raised when a batch system refuses a block of workers, or does not answer.

    Read its own words, and mend the option that they name; `pool.check()` asks again without a submission.

    Attributes:
        words: the batch system's own words.
        command: words of the command that it was asked by.
        script: the script that would have been run.
        answered: False if the batch system could not be asked, so that this is no refusal.

    Example::

        try:
            await Slurm("cores=16", walltime="4:00:00", queue="long").check()
        except LaunchError as error:
            print(error.words, error.command, error.script)
    """

    def __init__(self, words: str, command: Sequence[str] = (), script: str = "", *, answered: bool = True) -> None:
        super().__init__(words, tuple(command), script)
        self.answered = answered
        self.words = words
        self.command: tuple[str, ...] = tuple(command)
        self.script = script

    def __str__(self) -> str:
        """Return the command's name, where the batch system's words lack it, and those."""
        name = f"{self.command[0]}: " if self.command else ""
        return self.words if self.words.startswith(name) else name + self.words


class SettingsError(GrainlikeError, ValueError):
    """Raised when a file of settings, or a variable, has an unknown key or a wrong value, or others may write it.

    The message names the file and the key; `grainlike config` shows which value comes from where.

    Example::

        try:
            pool = load("gpu")
        except SettingsError as error:
            print(error)
    """


class SessionError(GrainlikeError, RuntimeError):
    """Raised when a named session is in use by another program, or has no room for what was to be kept in it.

    End the other program, or take another session; `forget` makes room, and drops a name that is taken. Who still
    awaits a call when the program leaves its session gets it, too: the call goes on, and the next program finds it.

    Example::

        async with connect(session="sweep") as ex:
            try:
                await ex.forget("fit")
            except SessionError as error:
                print(error)  # session 'sweep' has nothing named 'fit'
    """


class VersionMismatchError(GrainlikeError, RuntimeError):
    """Raised when protocol, Python or serializer versions of the two ends are incompatible.

    The message has both versions: start program and workers from the environment of the head, or from one like it.

    Example::

        try:
            async with connect() as ex:
                await ex.wait_for_workers(1)
        except VersionMismatchError as error:
            print(error)
    """


class AuthenticationError(GrainlikeError, PermissionError):
    """Raised when the other end did not prove that it belongs to this cluster, or others may read an access file.

    Take the access file of the head that runs now, which its user alone can read.

    Example::

        try:
            async with connect("client.json"):  # others can read it
                ...
        except AuthenticationError as error:
            print(error)  # client.json is open to other users; close it with: chmod 600 client.json
    """


class ProtocolError(GrainlikeError, RuntimeError):
    """Raised when the other end sent what the protocol does not allow.

    At that address is no head, or one with a fault: look at its log, and report what the message says.

    Example::

        try:
            async with connect() as ex:
                await ex.wait_for_workers(1)
        except ProtocolError as error:
            print(error)
    """


class RemoteError(GrainlikeError, RuntimeError):
    """Raised in place of a job's exception that could not be pickled, with its type name, message and traceback.

    Let the exception keep plain data alone, or make it in a way that `pickle` can repeat.

    Attributes:
        type_name: the name of the exception's type, with its module.
        message: its text.
        remote_traceback: its traceback in the job, as text.

    Example::

        try:
            await (fail_oddly @ Cores(1))()  # its error holds a lock
        except RemoteError as error:
            print(error.type_name, error.message)
    """

    def __init__(self, type_name: str, message: str, remote_traceback: str = "") -> None:
        super().__init__(type_name, message, remote_traceback)
        self.type_name = type_name
        self.message = message
        self.remote_traceback = remote_traceback

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}"
