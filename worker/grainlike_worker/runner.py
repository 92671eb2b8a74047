"""A runner's process: `python -m grainlike_worker.runner --own|--shared --fd N --parent PID ...`.

Started by the worker's daemon alone, with one end of a socket pair as descriptor N. It dies with that parent.
"""

import atexit
import os
import sys
from types import ModuleType
from typing import NoReturn

from grainlike_worker._lifeline import die_with_parent, die_with_pipe

__all__ = ["main"]


def main(arguments: list[str]) -> NoReturn:
    """Serve until the link ends or SIGTERM comes; never returns. Threads and children left by jobs do not hold it."""
    # By hand, because argparse and getopt take longer to import than all the rest of this module.
    kind, options = arguments[0], dict(zip(arguments[1::2], arguments[2::2], strict=True))
    die_with_parent(int(options["--parent"]))
    fds = [int(options[name]) for name in ("--fd", "--claims") if name in options]
    lifeline = [int(options["--lifeline"])] if "--lifeline" in options else []
    for fd in lifeline:
        die_with_pipe(fd)
    for fd in (*fds, *lifeline):
        # Inherited once; a job's children must not hold the link open, or read it.
        os.set_inheritable(fd, False)
    _forget_imports_path(int(options.get("--added-paths", 0)))
    # Users' functions may name things of *their* `__main__`; they must not find ours under that name.
    sys.modules["__main__"] = ModuleType("__main__")
    sys.argv[1:] = []
    code = 1
    try:
        code = _serve_own(*fds) if kind == "--own" else _serve_shared(fds[0])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException as error:  # noqa: BLE001 - the last chance to say why
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        _leave(code)


def _forget_imports_path(count: int) -> None:
    """Take back what the daemon put in front of PYTHONPATH to start us: programs that a job starts are not ours."""
    if count:
        paths = os.environ.pop("PYTHONPATH").split(os.pathsep)[count:]
        if paths:
            os.environ["PYTHONPATH"] = os.pathsep.join(paths)


def _serve_own(fd: int, claims: int | None = None) -> int:
    import socket

    from grainlike_worker._claims import Claims
    from grainlike_worker._own import OwnRunner
    from grainlike_worker._pipe import Pipe

    page = None if claims is None else Claims.attach(claims)
    OwnRunner(Pipe(socket.socket(fileno=fd)), page).serve()
    return 0


def _serve_shared(fd: int) -> int:
    from grainlike_worker._shared_process import serve_process

    return serve_process(fd)


def _leave(code: int) -> NoReturn:
    """End now, after what was registered for the end. The usual end would wait for threads that jobs left behind."""
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
