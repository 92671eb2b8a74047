"""Pages of the command-line reference, from the commands themselves."""

import re
from typing import Any

import typer

from grainlike.cli._root import whole_app

__all__ = ["command_pages"]

_PANELS = {
    "Get to know it": "learn",
    "Run a cluster": "run",
    "Get workers": "workers",
    "Look at a cluster": "look",
}
_MARKUP = re.compile(r"(?<!\\)\[/?(bold|dim)\]")
_HEADING = re.compile(r"^\[bold\](.*)\[/bold\]$", re.MULTILINE)


def command_pages() -> dict[str, str]:
    """Return pages by file name: one for each panel of the help, and one that lists all commands.

    Raises:
        KeyError: a command is in a panel without a page.
    """
    program: Any = typer.main.get_command(whole_app())
    texts: dict[str, list[str]] = {panel: [] for panel in _PANELS}
    rows = []
    for name, command in sorted(program.commands.items()):
        panel = command.rich_help_panel
        texts[panel].append(_command(f"grainlike {name}", command, 2))
        summary = _cell((command.help or "").split("\n\n")[0])
        rows.append(f"| [`{name}`]({_PANELS[panel]}.md#grainlike-{name}) | {panel} | {summary} |")
    pages = {
        f"reference/commands/{file}.md": f"# {panel}\n\n" + "\n".join(texts[panel]) for panel, file in _PANELS.items()
    }
    pages["reference/commands/index.md"] = (
        "# Command line\n\nAll commands, as `grainlike COMMAND --help` shows them. "
        "[Commands as jobs](../../commands.md) and [workers and heads](../../workers.md) show them at work.\n\n"
        "| command | group | what it does |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    )
    return pages


def _command(path: str, command: Any, level: int) -> str:
    context = command.make_context(path, [], resilient_parsing=True)
    usage = " ".join(command.get_usage(context).split())
    parts = [f"{'#' * level} {path}", _prose(command.help or ""), f"```text\n{usage}\n```"]
    shown = [one for one in command.get_params(context) if not getattr(one, "hidden", False)]
    records = [record for one in shown if (record := one.get_help_record(context))]
    if records:
        lines = [f"| `{_cell(written)}` | {_cell(meaning)} |" for written, meaning in records]
        parts.append("| argument or option | meaning |\n|---|---|\n" + "\n".join(lines))
    parts += _sections(command.epilog or "")
    for name, one in getattr(command, "commands", {}).items():
        parts.append(_command(f"{path} {name}", one, level + 1))
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _sections(epilog: str) -> list[str]:
    """Return the examples and exit codes of a command, each a heading and a block."""
    _, *found = _HEADING.split(epilog)
    parts = []
    for heading, body in zip(found[::2], found[1::2], strict=True):
        text = _plain(body).strip("\n")
        parts.append(f"**{heading}**\n\n```{'sh' if heading == 'Examples' else 'text'}\n{text}\n```")
    return parts


def _plain(text: str) -> str:
    return _MARKUP.sub("", text).replace("\\[", "[")


def _prose(text: str) -> str:
    return re.sub(r"[<>]", lambda match: f"\\{match[0]}", _plain(text))


def _cell(text: str) -> str:
    return " ".join(_plain(text).replace("|", "\\|").split())
