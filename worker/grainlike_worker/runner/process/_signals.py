"""Signals that a runner of plain functions takes, and the moments in which it may take them.

SIGTERM ends the process, but through the job: `SystemExit` is raised in it (a coroutine is cancelled instead), so that
its `finally` runs; a note of that, or the message of the cancellation, tells the reason where there is one. SIGURG asks
for the outcomes that wait for the running job to end; nothing else uses it, and where no handler stands yet the
system ignores it.

In a batch job a SIGTERM counts only once the daemon has said that the runner shall end: batch systems send it, and
their notices, to every process of a job, and the daemon gives jobs their grace. A job that fails in between, as its
programs died of that signal, waits for the daemon's word a moment (`wait_for_word`); also where a program has ended
and the signal may still be on its way to here.

A handler may run between any two instructions. It acts only while the runner is `exposed`, that is inside a job or
waiting for one; at all other times it leaves a mark.

Both are this process's alone: a child that a job forks dies of SIGTERM as any other process does.
"""

import os
import signal
import time
from collections.abc import Callable
from types import FrameType

from grainlike.wire import StopReason
from grainlike_worker.ipc._signals import FLUSH_SIGNAL, LATE_S, NOTICES, TERMINATED, WORD_S, in_batch_job
from grainlike_worker.linux._forks import keep_signals
from grainlike_worker.runner.common._usage import count_of_ended_children

__all__ = ["RunnerSignals"]


_handler_of: Callable[[int], object] = vars(signal)["_signal"].getsignal
"""What `signal.getsignal` asks, before it tries to make an enum of the answer."""


_NAP_S = 0.01


class RunnerSignals:
    """SIGTERM and SIGURG of this process, from `install` on; for the main thread."""

    __slots__ = (
        "_ended",
        "_flush",
        "_home",
        "_in_batch",
        "_notices",
        "_raised",
        "_stopping",
        "_told",
        "asked",
        "cancel",
        "exposed",
        "noticed",
        "reason",
    )

    def __init__(
        self,
        flush: Callable[[], None],
        told: Callable[[], int] = lambda: StopReason.UNSAID,
        stopping: Callable[[], object] = lambda: None,
    ) -> None:
        self._in_batch = in_batch_job()
        self._flush = flush
        self._told = told
        self._stopping = stopping
        self._raised = False
        self._notices = NOTICES if self._in_batch else ()
        self._home = os.getpid()
        self._ended = 0
        self.asked = False
        self.noticed = False
        """True once a SIGTERM, or a notice, has come of which the daemon has not said that it is for this process."""
        self.reason = StopReason.UNSAID
        self.exposed = False
        self.cancel: Callable[[], object] | None = None
        ours = {signal.SIGTERM: self._on_sigterm, FLUSH_SIGNAL: self._on_flush}
        ours |= dict.fromkeys(self._notices, self._on_notice)
        keep_signals({number: (handler, signal.SIG_DFL) for number, handler in ours.items()})

    def install(self) -> None:
        """Take the signals, also back from a job that took them from us."""
        if _handler_of(signal.SIGTERM) != self._on_sigterm:
            signal.signal(signal.SIGTERM, self._on_sigterm)
            signal.signal(FLUSH_SIGNAL, self._on_flush)
            for number in self._notices:
                signal.signal(number, self._on_notice)

    def sheltered(self, call: Callable[[], object]) -> None:
        """Inside a job, do something of the runner's that no signal may cut in two."""
        self.exposed = False
        try:
            call()
        finally:
            self.exposed = True
        if self.asked and self.cancel is None and not self._raised:
            raise self.end()

    def wait_for_word(self) -> None:
        """Wait, after a job has failed, until the daemon says that this shall end, if all processes were signalled.

        The same where a program of a job has ended since the last look: it may have been signalled before this.
        """
        ended, self._ended = self._ended, count_of_ended_children() if self._in_batch else 0
        if self.asked or not (self.noticed or ended != self._ended):
            return
        since = time.monotonic()
        self.exposed = True
        try:
            while time.monotonic() < since + (WORD_S if self.noticed else LATE_S):
                time.sleep(_NAP_S)
        except SystemExit:
            pass
        finally:
            self.exposed = False
        self.noticed = False  # it is waited for once

    def end(self) -> SystemExit:
        """Return what ends the process, through the job that runs; once, so that it can tidy up."""
        self._raised = True
        end = SystemExit(TERMINATED)
        if self.reason.message is not None:
            end.add_note(self.reason.message)
        return end

    def _on_sigterm(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the system's signature
        if os.getpid() != self._home:  # a child that put back what it had found
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
            return
        told = self._told()
        if self._in_batch and not told:
            self.noticed = True
            return
        if self.asked:
            return  # once is enough: a second one must not cut the job's clean-up short
        self.asked = True
        self.reason = StopReason(told or StopReason.UNSAID)
        self._stopping()
        if self.cancel is not None:
            self.cancel()
        elif self.exposed:
            raise self.end()

    def _on_notice(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the system's signature
        """Note that all processes were signalled. Programs that a job starts do not inherit this, as they would inherit
        that a signal is ignored.
        """
        self.noticed = True

    def _on_flush(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the system's signature
        if self.exposed and os.getpid() == self._home:
            self.exposed = False
            try:
                self._flush()
            finally:
                self.exposed = True
