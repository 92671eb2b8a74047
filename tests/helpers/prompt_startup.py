"""What Python runs before its first prompt, PYTHONSTARTUP, where a test types (pasting.py). It leaves no name there.

Prompts are marked, so that none is taken for what a program prints. The value of an expression, which Python shows, is
written to standard error, and an uncaught exception to standard output, too. So there is on standard output what the
same program prints as a file, and whatever else is there is a difference.
"""


def _set_up() -> None:
    import builtins
    import contextlib
    import os
    import sys
    from types import TracebackType

    def begin_page(folder: str) -> None:
        """Forget the names of the page before, and go to a folder."""
        names = vars(sys.modules["__main__"])
        for name in [name for name in names if not name.startswith("__")]:
            del names[name]
        os.chdir(folder)

    def show(value: object) -> None:
        with contextlib.redirect_stdout(sys.stderr):
            sys.__displayhook__(value)

    def tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.__excepthook__(kind, error, trace)
        print(f"uncaught {kind.__name__}: {error}")

    builtins.__dict__["begin_page"] = begin_page
    sys.displayhook, sys.excepthook = show, tell
    sys.ps1, sys.ps2 = "[>>>] ", "[...] "


_set_up()
del _set_up
