"""`completion`: the command that prints what a shell has to load."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from grainlike.cli._exits import epilog
from grainlike.cli._root import app, exit_with, whole_app

__all__: list[str] = []

_EXAMPLES = epilog(
    """
[dim]# bash: in ~/.bashrc, or once and for all[/dim]
eval "$(grainlike completion bash)"
grainlike completion bash > ~/.local/share/bash-completion/completions/grainlike

[dim]# zsh: in ~/.zshrc behind compinit, or into a folder of $fpath[/dim]
eval "$(grainlike completion zsh)"
grainlike completion zsh > ~/.zfunc/_grainlike

[dim]# fish[/dim]
grainlike completion fish > ~/.config/fish/completions/grainlike.fish
"""
)


class Shell(StrEnum):
    """A shell that completes command lines."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@app.command("completion", epilog=_EXAMPLES, rich_help_panel="Get to know it")
def _completion(shell: Annotated[Shell, typer.Argument(show_default=False, help="For which shell.")]) -> None:
    """Print a script with which a shell completes commands, options, and what a head knows: jobs, workers, pools."""
    from grainlike.cli.completion import script

    def printed() -> int:
        sys.stdout.write(script(shell.value, typer.main.get_command(whole_app())))
        return 0

    exit_with(printed)
