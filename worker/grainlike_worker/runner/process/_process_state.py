"""State that a job may leave in its process besides files and variables, put back for the next: timers, the umask,
signals' handlers and which of them are blocked, resource limits, and priority.

All of it is asked for again after each lease, by a handful of system calls; but handlers and limits, of which there are
many, where somebody has called what sets them.
"""

import faulthandler
import os
import resource
import signal
from collections.abc import Callable
from functools import wraps
from operator import is_not
from types import ModuleType
from typing import Any

__all__ = ["ProcessState"]

_beneath: ModuleType = vars(signal)["_signal"]
"""Module of what `signal` calls, before it makes enums of what goes in and comes out."""

_raw: dict[str, Any] = vars(_beneath)

_handler_of, _sigmask, _setitimer = _raw["getsignal"], _raw["pthread_sigmask"], _raw["setitimer"]

_SIGNALS = range(1, signal.NSIG)

_LIMITS = sorted({number for name, number in vars(resource).items() if name.startswith("RLIMIT_")})

_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)

_FAULTS = (signal.SIGSEGV, signal.SIGFPE, signal.SIGABRT, signal.SIGBUS, signal.SIGILL)
"""What `faulthandler` takes, unseen by `signal`."""


class ProcessState:
    """Of the main thread that makes it: as things are now, later jobs shall find them."""

    __slots__ = ("_handled", "_handlers", "_limited", "_limits", "_mask", "_priority", "_umask", "stay")

    def __init__(self) -> None:
        self._umask = os.umask(0o077)
        os.umask(self._umask)
        self._handlers = list(map(_handler_of, _SIGNALS))
        self._mask: set[int] = _sigmask(signal.SIG_BLOCK, ())
        self._limits = list(map(resource.getrlimit, _LIMITS))
        self._handled = _CallRecorder(_beneath, "signal")
        self._limited = _CallRecorder(resource, "setrlimit", "prlimit")
        self._priority = os.getpriority(os.PRIO_PROCESS, 0)
        self.stay = False
        """Whether something could not be put back: this process should take no other job."""

    def clear(self) -> None:
        """Put back what the last job changed."""
        for timer in _TIMERS:
            _setitimer(timer, 0.0)
        os.umask(self._umask)
        if (self._handled.called and self._are_other_handlers()) or _sigmask(signal.SIG_BLOCK, ()) != self._mask:
            self._restore_signals()
        self._handled.called = False
        if self._limited.called:
            self._restore_limits()
        if os.getpriority(os.PRIO_PROCESS, 0) != self._priority:
            self._try(os.setpriority, os.PRIO_PROCESS, 0, self._priority)

    def _are_other_handlers(self) -> bool:
        # By identity: a handler of a job's is not to be asked what it is equal to.
        return any(map(is_not, map(_handler_of, _SIGNALS), self._handlers))

    def _restore_signals(self) -> None:
        """Handlers first: what is let through then comes to ours. What was sent to a job's has no receiver any more."""
        ours = {number for number in _SIGNALS if callable(self._handlers[number - 1])}
        while foreign := signal.sigpending() - self._mask - ours:
            signal.sigtimedwait(foreign, 0)
        faults = False
        for number, handler in zip(_SIGNALS, self._handlers, strict=True):
            if _handler_of(number) is not handler:
                faults = faults or number in _FAULTS
                self._try(signal.signal, number, handler)
        if faults:
            faulthandler.disable()
            faulthandler.enable(2)
        _sigmask(signal.SIG_SETMASK, self._mask)

    def _restore_limits(self) -> None:
        for number, limits in zip(_LIMITS, self._limits, strict=True):
            if resource.getrlimit(number) != limits:
                self._try(resource.setrlimit, number, limits)
        self._limited.called = False

    def _try(self, call: Any, *arguments: Any) -> None:
        """Call a function that undoes something; what takes rights stays, as a lowered hard limit does; and a handler
            that is
        not Python's."""
        try:
            call(*arguments)
        except (OSError, ValueError, TypeError):
            self.stay = True


class _CallRecorder:
    """Recorder of calls of some functions of a module."""

    __slots__ = ("called",)

    def __init__(self, module: ModuleType, *names: str) -> None:
        self.called = False
        for name in names:
            setattr(module, name, self._noting(getattr(module, name)))

    def _noting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def noting(*arguments: Any) -> Any:
            self.called = True
            return function(*arguments)

        return noting
