"""What the commands of the fake batch systems share: how they find the server, and how they ask it."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

__all__ = ["Down", "ask", "directives", "fault", "hang_if_told", "site", "state"]

_ANSWER_S = 30.0


class Down(Exception):
    """No server answers."""


def state() -> Path:
    """Return the directory of the server, which PBS_CONF_FILE or LSF_ENVDIR leads to.

    Raises:
        Down: neither does.
    """
    for variable, name, key in (("PBS_CONF_FILE", "", "PBS_HOME"), ("LSF_ENVDIR", "lsf.conf", "LSB_SHAREDIR")):
        path = os.environ.get(variable)
        if not path:
            continue
        lines = (Path(path) / name if name else Path(path)).read_text().splitlines()
        pairs = [line.partition("=") for line in lines]
        found = [value for found, _, value in pairs if found == key]
        if found:
            return Path(found[0])
    raise Down


def site() -> dict[str, Any]:
    """Return the settings of the site, as the server reads them."""
    return dict(json.loads((state() / "site.json").read_text()))


def ask(do: str, **what: Any) -> Any:
    """Ask the server; return its answer.

    Raises:
        Down: it does not answer.
    """
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(_ANSWER_S)
        try:
            asking.connect(str(state() / "socket"))
            asking.sendall(json.dumps({"do": do, **what}).encode() + b"\n")
            answer = b"".join(iter(lambda: asking.recv(65536), b""))
        except OSError as error:
            raise Down from error
    if not answer:
        raise Down
    return json.loads(answer)


def fault(command: str, kind: str) -> str | None:
    """Return what STATE/faults/COMMAND.KIND has, which tests write; None where there is none. Each is counted."""
    path = state() / "faults" / f"{command}.{kind}"
    try:
        words = path.read_text()  # before it is counted: a test that has seen the count may remove it
    except FileNotFoundError:
        return None
    with path.with_suffix(".count").open("a") as count:
        count.write(f"{kind}\n")
    return words


def hang_if_told(command: str) -> None:
    """Hang while tests say so, and then be killed: a command whose request was taken, and whose answer never comes."""
    if fault(command, "hang") is None:
        return
    while (state() / "faults" / f"{command}.hang").exists():
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGKILL)


def directives(script: str, prefix: str) -> list[str]:
    """Return the directives of a script, without their prefix, as far as the first line that is a command."""
    found: list[str] = []
    for line in script.splitlines():
        if line.startswith(prefix):
            found.append(line[len(prefix) :].strip())
        elif line.strip() and not line.startswith(("#", ":")):
            break
    return found
