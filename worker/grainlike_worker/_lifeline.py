"""A runner never outlives its worker: the kernel kills it in the moment in which its parent dies."""

import os
import signal
import sys

__all__ = ["die_with_parent"]

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Have this process killed when the thread that started it ends; exit now if `parent` is already gone.

    Linux only. Elsewhere the end of the link is the only sign, which a runner sees between two jobs.
    """
    if sys.platform == "linux":
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # The parent may have died before the call above; then the kernel has nothing left to tell us.
    if os.getppid() != parent:
        os._exit(1)
