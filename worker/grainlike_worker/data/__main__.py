"""Process of a data server: `python -m grainlike_worker.data --fd N [--listen N] --parent PID`.

`--fd` is one end of a socket pair; the daemon has the other end, and speaks first. The process ends when that socket
does, so it also ends when its daemon is killed. The daemon keeps the listening socket, so that another process can go
on with it.
"""

import logging
import os
import select
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import NoReturn

from grainlike.errors import ProtocolError
from grainlike.net import Credentials
from grainlike.subprocesses import reset_signals
from grainlike.wire import (
    TRUSTED,
    DataSetup,
    Frame,
    FrameDecoder,
    Pulled,
    PullInto,
    Received,
    StopTransfer,
    Unsent,
    encode_frame,
)
from grainlike_worker.data._pulling import Puller
from grainlike_worker.data._serving import ReplicaServer
from grainlike_worker.data._tls import DataTls
from grainlike_worker.ipc._signals import NOTICES
from grainlike_worker.linux._lifeline import die_with_parent

__all__ = ["main"]

REPORT_S = 0.5
"""Seconds between two reports of how many bytes of each pull have arrived."""

_READ_BYTES = 64 * 1024


class DataServer:
    """Data server of the daemon at the other end of `control`; other workers connect to `listener`."""

    def __init__(self, control: socket.socket, listener: socket.socket | None) -> None:
        self._control = control
        self._listener = listener
        self._decoder = FrameDecoder(TRUSTED)
        self._puller: Puller | None = None
        self._saying = threading.Lock()

    def serve(self) -> None:
        """Do what the daemon says until the daemon has ended."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while True:
            busy = self._puller is not None and self._puller.busy
            if poll.poll(1000 * REPORT_S if busy else None):
                data = self._control.recv(_READ_BYTES)
                if not data:
                    return
                for frame in self._decoder.feed(data):
                    self._hear(frame)
            elif self._puller is not None and (told := self._puller.progress()) is not None:
                self._say(told)

    def _hear(self, frame: Frame) -> None:
        match frame.message:
            case DataSetup() as setup if self._puller is None:
                self._begin(setup)
            case PullInto() as order if self._puller is not None:
                self._puller.pull(order)
            case StopTransfer(transfer=transfer) if self._puller is not None:
                self._puller.stop(transfer)
            case _:
                raise ProtocolError(f"{type(frame.message).__name__} was not expected here")

    def _begin(self, setup: DataSetup) -> None:
        tls = DataTls(setup.cluster, Credentials(setup.authority, setup.certificate, setup.key))
        directory = Path(setup.replicas)
        self._puller = Puller(tls, directory, self._say, setup.patience_s)
        if self._listener is not None:
            server = ReplicaServer(self._listener, tls, directory, setup.data_key)
            threading.Thread(target=server.serve, daemon=True).start()

    def _say(self, message: Received | Unsent | Pulled) -> None:
        with self._saying:
            self._control.sendall(b"".join(map(bytes, encode_frame(message))))


def main(arguments: list[str]) -> NoReturn:
    """Serve until the daemon has ended; never return."""
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    reset_signals()
    # Batch systems and terminals send these to every process of a job; only the daemon obeys them.
    for number in (signal.SIGINT, signal.SIGTERM, *NOTICES):
        signal.signal(number, signal.SIG_IGN)
    die_with_parent(int(options["--parent"]))
    control, listener = (
        socket.socket(fileno=int(options[name])) if name in options else None for name in ("--fd", "--listen")
    )
    assert control is not None
    for end in (control, listener):
        if end is not None:
            end.set_inheritable(False)
    sys.argv[1:] = []
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    try:
        DataServer(control, listener).serve()
    except OSError:
        pass  # the daemon is dead
    except BaseException as error:  # noqa: BLE001 - no other process could report it
        sys.excepthook(type(error), error, error.__traceback__)
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
