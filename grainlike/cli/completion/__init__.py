"""Completion of command lines in bash, zsh and fish.

Answers: the script that a shell loads (`script`), with all commands and options in it, so that most completions start
no program; and for values that a head knows, such as the numbers of jobs, what there is now (`print_values`).

Never waits for long, and never complains: a completion that cannot be found is none. What is completed where stands
once, in `_program`; scripts hold no more than the words of one shell.
"""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.cli.completion._script import SHELLS, script
    from grainlike.cli.completion._values import print_values

__all__ = ["SHELLS", "print_values", "script"]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(__name__, {"SHELLS": "_script", "script": "_script", "print_values": "_values"})
