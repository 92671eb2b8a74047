"""Child process for calls that must be ended when their time is over or they are cancelled.

It is started by the name of this room, communicates over one end of a socket pair, and performs one call after
another. It is a session of its own, so that it is killed with what its calls have started; and it kills itself and
them when its parent has exited.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from importlib import import_module
from typing import Any

from grainlike.calls._call import BackendAnswer, BackendCall, answer, where
from grainlike.payload import Payload, dump_value, load_value
from grainlike.system import import_paths

__all__ = ["CallProcess", "CallProcessLostError", "answer_in_time", "run_call", "serve"]

_LENGTH = struct.Struct("!Q")


class CallProcessLostError(Exception):
    """Raised when the process ended before it had answered; the text is how."""


class CallProcess:
    """Child process for calls. `ask` from one thread at a time, `kill` from any."""

    def __init__(self) -> None:
        self._ready = False
        self._ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and room
                [sys.executable, "-m", "grainlike.calls", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(import_paths())},
            )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True if it has not exited, as far as the system has reported."""
        return self._process.poll() is None

    def ask(self, call: BackendCall, timeout: float | None = None) -> BackendAnswer:
        """Have a call performed.

        Raises:
            TimeoutError: there was no answer within `timeout` seconds, in which its start is not counted; the process
                runs until it is killed.
            ChildLostError: the process ended before it had answered.
        """
        try:
            if not self._ready:
                self._ours.settimeout(None)
                self._ready = bool(_receive(self._ours))
                _send(self._ours, _authkey())
            self._ours.settimeout(timeout)
            _send(self._ours, call)
            answer: BackendAnswer = _receive(self._ours)
        except TimeoutError:
            raise
        except (OSError, EOFError):
            code = self.kill()
            how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
            raise CallProcessLostError(f"its process (pid {self.pid}) ended {how}") from None
        return answer

    def kill(self) -> int:
        """Kill it and what its calls have started, and wait until it has exited; return its exit code."""
        code = self._process.poll()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        with suppress(OSError):
            self._ours.shutdown(socket.SHUT_RDWR)  # the caller that waits is woken by it
        return self._process.returncode if code is None else code

    def close(self) -> None:
        """Kill it, and close its socket; no more calls may be made."""
        self.kill()
        self._ours.close()


def answer_in_time(call: BackendCall, timeout: float) -> BackendAnswer:
    """Have a call performed by a child of its own, within so many seconds."""
    child = CallProcess()
    try:
        return child.ask(call._replace(timeout=None, worker=call.worker or where()), timeout)
    except TimeoutError:
        return BackendAnswer(False, b"", (), call.worker or where(), timeout, 0.0, 0, timed_out=True)
    finally:
        child.close()


def run_call(call: BackendCall) -> BackendAnswer:
    """Perform a call here, in this thread, or, if it has a timeout, in a process that can be ended."""
    return answer(call) if call.timeout is None else answer_in_time(call, call.timeout)


# --- in the child ----------------------------------------------------------------------------------------------------


def serve(descriptor: int) -> None:
    """Perform calls until the parent has exited."""
    link = socket.socket(fileno=descriptor)
    link.set_inheritable(False)
    threading.Thread(target=_end_with, args=(link,), daemon=True, name="grainlike lifeline").start()
    with suppress(OSError, EOFError):
        _send(link, True)
        key = _receive(link)
        if key:
            import_module("multiprocessing.process").current_process().authkey = key
        while True:
            _send(link, answer(_receive(link)))


def _authkey() -> bytes:
    """Return the key by which processes of this program know each other, as a `multiprocessing.Manager` asks for it."""
    process = sys.modules.get("multiprocessing.process")  # no manager without it
    return bytes(process.current_process().authkey) if process is not None else b""


def _end_with(link: socket.socket) -> None:
    """Wait until the other end is closed, in the middle of a call too; then end all that is left."""
    poll = select.poll()
    poll.register(link, select.POLLRDHUP | select.POLLHUP)
    poll.poll()
    os.killpg(0, signal.SIGKILL)


def _send(link: socket.socket, what: object) -> None:
    data = dump_value(what).data  # calls and answers hold bytes, which stay in the stream
    link.sendall(_LENGTH.pack(len(data)))
    link.sendall(data)


def _receive(link: socket.socket) -> Any:
    (length,) = _LENGTH.unpack(_exactly(link, _LENGTH.size))
    return load_value(Payload(_exactly(link, length)))


def _exactly(link: socket.socket, length: int) -> bytearray:
    data = bytearray(length)
    view = memoryview(data)
    while view:
        read = link.recv_into(view)
        if not read:
            raise EOFError
        view = view[read:]
    return data
