"""Machines without a batch system: by `ssh`, or this one. A shell there starts a block, and finds it again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from posixpath import dirname
from typing import ClassVar

from grainlike.dialects._block import BlockFile, BlockRequest, CommandResult, NativeCommand, is_native_name
from grainlike.dialects._dialect import Dialect
from grainlike.dialects._facts import Answer, ListedBlock, Listing, answer_without_id, words_of
from grainlike.dialects._flags import FlagRules
from grainlike.dialects._script import ScriptStyle

__all__ = ["LocalDialect", "SSHDialect", "deliver"]

_END = "END_OF_FILE_OF_GRAINLIKE"
_DONE = "grainlike listed all"
_PID = re.compile(r"^grainlike ([0-9]{1,12}) ([0-9]{1,20})$", re.MULTILINE | re.ASCII)
_ROW = re.compile(
    r"^grainlike (?P<name>gl[0-9a-f]{8}-[0-9]{1,9}) (?P<state>pending|running|ended) (?P<pid>[0-9]{1,12}|-)"
    r" (?P<start>[0-9]{1,20}|-) (?P<left>-?[0-9]{1,12}|-) (?P<code>[0-9]{1,3}|-)$",
    re.MULTILINE | re.ASCII,
)

_STARTED = 'started() { s=$(cat "/proc/$1/stat" 2>/dev/null) || return; s=${s##*) }; set -- $s; echo "${20}"; }'
"""Shell function that prints when a process began, in clock ticks since the machine did: unique with its pid."""


def deliver(files: Sequence[BlockFile]) -> NativeCommand:
    """Return a command that writes files, each mode 0600 in a directory of mode 0700, with `bash` reading its input.

    Raises:
        ValueError: a file has bytes that no text has.

    Example::

        >>> deliver([BlockFile("/tmp/b/script", "true\\n")]).argv
        ('bash', '-s')
    """
    return NativeCommand(("bash", "-s"), "\n".join(["umask 077", *_writing(files)]) + "\n")


def _writing(files: Sequence[BlockFile]) -> list[str]:
    lines: list[str] = []
    for file in files:
        if "\0" in file.text or _END in file.text:
            raise ValueError(f"{file.path}: it cannot be written from a shell")
        end = "" if file.text.endswith("\n") or not file.text else "\n"
        lines.append(f"mkdir -p -- {shlex.quote(dirname(file.path) or '.')} || exit")
        lines.append(f"cat >{shlex.quote(file.path)} <<'{_END}' || exit\n{file.text}{end}{_END}")
    return lines


class SSHDialect(Dialect):
    """Text for machines by SSH, and facts from what a shell there prints. Relative paths are below the home directory.

    Example::

        >>> SSHDialect().submitted(CommandResult(0, "grainlike 7 123\\n")).native
        '7:123'
    """

    kind = "ssh"
    title = "SSH"
    finders: ClassVar[tuple[str, ...]] = ("SSH_AUTH_SOCK",)
    rules = FlagRules(
        refused=dict.fromkeys(("-f", "-N", "-n", "-T", "-t", "-W", "-O", "-G", "-Q", "-V", "-s", "-T"), ""),
        alone="46AaCfGgKkMNnqsTtVvXxYy",
    )
    login: ClassVar[bool] = True
    """True where paths are below the home directory, and the shell reads the user's profile first."""

    def directives(self, block: BlockRequest) -> list[str]:  # noqa: ARG002 - as those that have some
        """Return no lines: there is no batch system."""
        return []

    def style(self, block: BlockRequest) -> ScriptStyle:
        """Return the parts of the script: it says that it began, passes SIGTERM on, and says how it ended."""
        limit = "-" if block.walltime_s is None else str(block.walltime_s)
        folder = shlex.quote(block.directory)
        # Where the head sees no directory of the block, nobody may be left to remove it; after a failure the log is
        # needed.
        forgotten = [f'[ "${{code-1}}" -ne 0 ] || rm -rf -- {folder}'] if block.deliver else []
        return ScriptStyle(
            shebang="#!/bin/bash -l" if self.login else "#!/bin/bash",
            opening=(
                *(["cd || exit"] if self.login else []),
                _STARTED,
                f'(umask 077; printf "%s %s {limit}\\n" "$$" "$(started $$)" >{folder}/pid.new)',
                f"mv {folder}/pid.new {folder}/pid",
            ),
            closing=(f'(umask 077; echo "${{code-1}}" >{folder}/code)', *forgotten),
            passes=True,
        )

    def script(self, block: BlockRequest) -> str:
        """Return the script of a block.

        Raises:
            ValueError: more than one node, or a script of the user's own that makes no block.
        """
        if block.nodes != 1:
            raise ValueError(f"nodes: a block of {self.title} is one machine")
        return super().script(replace(block, native=()))

    def _shell(self, block_host: str, native: Sequence[str], text: str) -> NativeCommand:
        return NativeCommand(("ssh", *native, "-o", "BatchMode=yes", "-T", "--", block_host, "bash", "-s"), text)

    def submit(self, block: BlockRequest) -> NativeCommand:
        """Return a shell that starts the script there, in a session of its own, once: a second call finds the first."""
        folder = shlex.quote(block.directory)
        shell = "bash -l" if self.login else "bash"
        lines = [
            "mask=$(umask); umask 077",
            *(["cd || exit"] if self.login else []),
            f"mkdir -p -- {shlex.quote(dirname(block.directory) or '.')} || exit",
            f"if mkdir -- {folder} 2>/dev/null; then",
            *_writing(self.files(block)),
            f': >{shlex.quote(block.log)}; umask "$mask"',
            f"setsid {shell} {shlex.quote(block.kept)} </dev/null >>{shlex.quote(block.log)} 2>&1 &",
            f"elif ! [ -d {folder} ]; then",
            f"echo cannot make {shlex.quote(folder)} >&2; exit 1",
            "fi",
            f"for try in {{1..100}}; do [ -s {folder}/pid ] && break; sleep 0.1; done",
            f'read -r pid start limit <{folder}/pid && echo "grainlike $pid $start"',
        ]
        return self._shell(block.host, block.native, "\n".join(lines) + "\n")

    def native_id(self, stdout: str) -> str:
        """Return pid and start time of the script."""
        found = _PID.findall(stdout)
        return ":".join(found[-1]) if found else ""

    def check(self, block: BlockRequest) -> NativeCommand:
        """Return `ssh HOST true`, with the user's flags."""
        shell = self._shell(block.host, block.native, "")
        return NativeCommand((*shell.argv[:-2], "true"))

    def checked(self, said: CommandResult) -> Answer:
        """Return what the answer to `check` means."""
        return Answer("accepted", words=words_of(said)) if said.code == 0 else answer_without_id(said)

    def list(self, user: str, host: str = "") -> tuple[NativeCommand, ...]:  # noqa: ARG002 - only our own can be seen
        """Return a shell that lists the blocks of one machine."""
        return (self.list_in(".local/state/grainlike/blocks", host),)

    def list_in(self, folder: str, host: str = "", native: Sequence[str] = ()) -> NativeCommand:
        """Return a shell that lists the blocks whose directories are in `folder` there, by their native names."""
        lines = [
            "cd || exit",
            _STARTED,
            "ticks=$(getconf CLK_TCK); read -r up rest </proc/uptime; up=${up%.*}",
            f"for folder in {shlex.quote(folder)}/gl*-*; do",
            '    [ -d "$folder" ] || continue',
            "    pid=- start=- limit=- left=- code=- state=pending",
            '    [ -s "$folder/pid" ] && read -r pid start limit <"$folder/pid" && state=ended',
            '    if [ "$pid" != - ] && [ "$(started "$pid")" = "$start" ]; then',
            "        state=running",
            '        [ "$limit" = - ] || left=$((limit - up + start / ticks))',
            '    elif [ -s "$folder/code" ]; then read -r code <"$folder/code"; fi',
            '    echo "grainlike ${folder##*/} $state $pid $start $left $code"',
            "done",
            f"echo {_DONE}",
        ]
        return self._shell(host, native, "\n".join(lines) + "\n")

    def listed(self, said: CommandResult) -> Listing:
        """Return the blocks of one machine; without the last line the listing is not whole."""
        if said.code != 0 or _DONE not in said.stdout.splitlines():
            return Listing(failed=words_of(said) or "no answer in time")
        return Listing(tuple(map(_listed, filter(_is_ours, _ROW.finditer(said.stdout)))))

    def end(self, natives: Sequence[str]) -> NativeCommand:
        """Return a shell that tells the scripts with these ids to end; they pass it to their workers."""
        return self.end_on("", natives)

    def end_on(
        self, host: str, natives: Sequence[str], *, now: bool = False, native: Sequence[str] = ()
    ) -> NativeCommand:
        """Return a shell on `host` that ends blocks; `now` kills all that is in their sessions."""
        kill = "kill -KILL -- -" if now else "kill -TERM "
        lines = [_STARTED]
        for one in natives:
            pid, _, start = one.partition(":")
            if pid.isdecimal() and start.isdecimal() and int(pid) > 1:
                lines.append(f'[ "$(started {pid})" != {start} ] || {kill}{pid}')
        return self._shell(host, native, "\n".join([*lines, ":"]) + "\n")

    def forget_on(self, host: str, folders: Sequence[str], native: Sequence[str] = ()) -> NativeCommand:
        """Return a shell on `host` that removes the directories of blocks that have ended."""
        lines = ["cd || exit", *(f"rm -rf -- {shlex.quote(folder)}" for folder in folders)]
        return self._shell(host, native, "\n".join(lines) + "\n")


def _is_ours(row: re.Match[str]) -> bool:
    return is_native_name(row["name"])


def _listed(row: re.Match[str]) -> ListedBlock:
    state = row["state"]
    code = "" if row["code"] == "-" else f"exit code {row['code']}"
    return ListedBlock(
        native="" if row["pid"] == "-" else f"{row['pid']}:{row['start']}",
        name=row["name"],
        state="ended" if state == "ended" else "running" if state == "running" else "pending",
        reason={"ended": code or "it was killed", "pending": "it is about to begin"}.get(state, ""),
        left_s=None if row["left"] == "-" else max(0.0, float(row["left"])),
    )


class LocalDialect(SSHDialect):
    """Text for blocks on this machine: the same shell, without `ssh` before it.

    Example::

        >>> LocalDialect().list("ann")[0].argv
        ('bash', '-s')
    """

    kind = "local"
    title = "this machine"
    finders = ()
    rules = FlagRules({})
    login: ClassVar[bool] = False

    def check_native(self, words: Sequence[str]) -> None:
        """Check the user's native flags.

        Raises:
            ValueError: there are some, and nobody to say them to.
        """
        if words:
            raise ValueError(f"native: there is no batch system that {words[0]!r} could be said to")

    def _shell(self, block_host: str, native: Sequence[str], text: str) -> NativeCommand:  # noqa: ARG002 - as over `ssh`
        return NativeCommand(("bash", "-s"), text)
