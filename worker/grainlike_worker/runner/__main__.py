"""A runner's process: `python -m grainlike_worker.runner --own|--shared --fd N --parent PID ...`.

Forked by the keeper, or where there is none started by the daemon, with one end of a socket pair as descriptor N. It
dies with that parent.
"""

import atexit
import faulthandler
import os
import sys
from types import ModuleType
from typing import NoReturn

from grainlike.payload import no_ctrl_c_comes
from grainlike.subprocesses import reap, reset_signals
from grainlike_worker.linux._lifeline import adopt_orphans, die_with_parent, die_with_pipe, end_within

__all__ = ["forget_added_paths", "main"]

_BROKEN_LEAVE_S = 2
"""How long what jobs registered for the end of their process may take, once the process is broken."""


def main(arguments: list[str]) -> NoReturn:
    """Serve until the link ends or SIGTERM comes; never returns. Threads and children left by jobs do not hold it."""
    # By hand, because argparse and getopt take longer to import than all the rest of this module.
    kind, options = arguments[0], dict(zip(arguments[1::2], arguments[2::2], strict=True))
    if "--kept" not in options:  # a new interpreter; what a keeper forks has its signals as it should
        reset_signals()
    die_with_parent(int(options["--parent"]))
    fds = [int(options[name]) for name in ("--fd", "--claims") if name in options]
    lifelines = [int(options[name]) for name in ("--lifeline", "--keepers-lifeline") if name in options]
    adopt_orphans()
    _redirect(options)
    output = [int(options[name]) for name in ("--unread-out", "--unread-err", "--told") if name in options]
    pages = [int(options[name]) for name in ("--steps", "--stacks", "--records") if name in options]
    for fd in lifelines:
        die_with_pipe(fd)
    for fd in (*fds, *lifelines, *output, *pages):
        # Inherited once; a job's children must not hold the link open, or read it.
        os.set_inheritable(fd, False)
    no_ctrl_c_comes()
    faulthandler.enable(2)  # a fault in C code leaves the Python stack among the last words
    forget_added_paths(int(options.get("--added-paths", 0)))
    # Users' functions may name things of *their* `__main__`; they must not find ours under that name.
    sys.modules["__main__"] = ModuleType("__main__")
    sys.argv[1:] = []
    code = 1
    try:
        code = _serve_own(options, output, *fds) if kind == "--own" else _serve_shared(options, fds[0])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException as error:  # noqa: BLE001 - the last chance to say why
        end_within(_BROKEN_LEAVE_S)
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        _leave(code)


def _redirect(options: dict[str, str]) -> None:
    """Make the descriptors that came for it this process's standard output and error."""
    for name, standard in (("--stdout", 1), ("--stderr", 2)):
        if name in options:
            os.dup2(int(options[name]), standard)
            os.close(int(options[name]))


def forget_added_paths(count: int) -> None:
    """Take back what the daemon put in front of PYTHONPATH to start us: programs that a job starts are not ours."""
    if count:
        paths = os.environ.pop("PYTHONPATH").split(os.pathsep)[count:]
        if paths:
            os.environ["PYTHONPATH"] = os.pathsep.join(paths)


def _serve_own(options: dict[str, str], output: list[int], fd: int, claims: int | None = None) -> int:
    import socket

    from grainlike_worker.ipc._claims import ClaimPage
    from grainlike_worker.linux._cgroup_memory import KernelLimit
    from grainlike_worker.runner.common._devices import Devices
    from grainlike_worker.runner.common._job_records import JobRecords
    from grainlike_worker.runner.process._memory_limit import MemoryLimit
    from grainlike_worker.runner.process._output import ProcessOutput
    from grainlike_worker.runner.process._pipe import Pipe
    from grainlike_worker.runner.process._runner import ProcessRunner

    page = None if claims is None else ClaimPage.attach(claims)
    keeper = int(options["--parent"]) if "--kept" in options else None
    devices = Devices.of_option(options["--devices"]) if "--devices" in options else None
    pipe = Pipe(socket.socket(fileno=fd))
    memory = MemoryLimit(page, keeper, KernelLimit(options["--cgroup"]) if "--cgroup" in options else None)
    scratch = options.get("--scratch")
    records = JobRecords(int(options["--records"])) if "--records" in options else None
    written = ProcessOutput(output)
    ProcessRunner(pipe, page, memory=memory, devices=devices, scratch=scratch, output=written, records=records).serve()
    return 0


def _serve_shared(options: dict[str, str], fd: int) -> int:
    from grainlike_worker.runner.loop._process import serve_process

    told, steps, stacks, records = (
        int(options[name]) if name in options else None for name in ("--told", "--steps", "--stacks", "--records")
    )
    return serve_process(fd, options.get("--scratch"), told=told, steps=steps, stacks=stacks, records=records)


def _leave(code: int) -> NoReturn:
    """End now, after what was registered for the end. The usual end would wait for threads that jobs left behind."""
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        if reap():
            from grainlike_worker.runner.common._leftovers import end_leftovers  # few processes leave any

            end_leftovers()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
