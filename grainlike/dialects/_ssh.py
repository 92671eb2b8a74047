"""Machines without a batch system: by `ssh`, or this one. A shell there starts a block, and finds it again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from posixpath import basename, dirname
from typing import ClassVar

from grainlike.dialects._block import BlockFile, BlockRequest, CommandResult, NativeCommand, is_native_name
from grainlike.dialects._dialect import Dialect
from grainlike.dialects._facts import Answer, ListedBlock, Listing, words_of
from grainlike.dialects._flags import FlagRules
from grainlike.dialects._script import ScriptStyle

__all__ = ["TAIL_BYTES", "LocalDialect", "SSHDialect", "deliver"]

TAIL_BYTES = 4096
"""Bytes of the end of a block's log that are read for the reason of its end."""

_END = "END_OF_FILE_OF_GRAINLIKE"
_DONE = "grainlike listed all"
_BEGAN = "grainlike began"
_TUNNEL = "grainlike forwards"
_UNSURE = 75
"""Exit code of a submission whose script was started, and does not say that it has begun."""

_SSH_FAILED = 255
_CONNECT_S = 15
"""Seconds for a connection: below the time of a native command, so that `ssh` says itself why there is none."""

_ID = r"[0-9]{1,12}) (?P<start>[0-9]{1,20}) (?P<node>[A-Za-z0-9._-]{1,255}"
_PID = re.compile(rf"^grainlike (?P<pid>{_ID})$", re.MULTILINE | re.ASCII)
_NATIVE = re.compile(r"(?P<pid>[0-9]{1,12}):(?P<start>[0-9]{1,20})@[A-Za-z0-9._-]{1,255}", re.ASCII)
_ROW = re.compile(
    r"^grainlike (?P<name>gl[0-9a-f]{8}-[0-9]{1,9}) (?P<state>pending|running|orphaned|ended|stillborn)"
    r" (?P<pid>[0-9]{1,12}|-) (?P<start>[0-9]{1,20}|-) (?P<node>[A-Za-z0-9._-]{1,255})"
    r" (?P<left>-?[0-9]{1,12}|-) (?P<code>[0-9]{1,3}|-)$",
    re.MULTILINE | re.ASCII,
)
_LOG = re.compile(r"^grainlike log of (gl[0-9a-f]{8}-[0-9]{1,9})\n((?:\| .*\n)*)grainlike forgot it$", re.MULTILINE)

_NO_SESSION = re.compile(
    r"^ssh: |^Bad |Permission denied|Host key verification failed|[ks]\w+_exchange_identification"
    r"|Too many authentication failures|no matching .* found|banner exchange|Connection closed by .* port"
    r"|forwarding (request )?failed|administratively prohibited|configuration option|unsupported option",
    re.MULTILINE,
)
"""Words of an `ssh` that had no session: nothing of ours has run there."""

_REASONS = {
    "pending": "it is about to begin",
    "orphaned": "its script was killed, and its worker goes on",
    "stillborn": "its script has never begun",
}

_STARTED = """\
started() {
    local stat=
    { read -r -d '' stat <"/proc/$1/stat"; } 2>/dev/null
    set -- ${stat##*) }
    [ "${1-Z}" = Z ] || echo "${20}"
}"""
"""Function that prints when a process began, in clock ticks since the machine did: with its pid it is no other's."""

_LIVES = """\
members() {
    local stat folder
    for folder in /proc/[0-9]*; do
        stat=
        { read -r -d '' stat <"$folder/stat"; } 2>/dev/null
        set -- "$1" ${stat##*) }
        [ "${2-Z}" = Z ] || [ "$5" != "$1" ] || echo "${folder##*/}"
    done
}
lives() {
    local now
    now=$(started "$1")
    if [ "$now" = "$2" ]; then echo running
    elif [ -z "$now" ] && [ -n "$(members "$1")" ]; then echo orphaned
    else echo ended; fi
}"""
"""Functions that print which processes are of a script's session, and if the script runs, or what it has left.

A session keeps its number until its last process has ended, so no other session has it.
"""


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

        >>> SSHDialect().submitted(CommandResult(0, "grainlike 7 123 n1\\n")).native
        '7:123@n1'
    """

    kind = "ssh"
    title = "SSH"
    finders: ClassVar[tuple[str, ...]] = ("SSH_AUTH_SOCK",)
    rules: ClassVar[FlagRules] = FlagRules(
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
        return ScriptStyle(
            shebang="#!/bin/bash -l" if self.login else "#!/bin/bash",
            opening=(
                *(["cd || exit"] if self.login else []),
                _STARTED,
                # One that cannot say that it began would not be found.
                f'(umask 077; echo "$$ $(started $$) {limit} $(uname -n)" >{folder}/pid.new) || exit',
                f"mv {folder}/pid.new {folder}/pid || exit",
            ),
            closing=(
                f'(umask 077; echo "${{code-1}}" >{folder}/code)',
                *([_forgotten(block)] if block.deliver else []),
            ),
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
        return NativeCommand((*_ssh(native), "-T", "--", block_host, "bash", "-s"), text)

    def submit(self, block: BlockRequest) -> NativeCommand:
        """Return a shell that starts the script there, in a session of its own, once: a second call finds the first.

        All of it is read before any of it runs, so that a connection that breaks leaves no half of it.
        """
        folder = shlex.quote(block.directory)
        shell = "bash -l" if self.login else "bash"
        lines = [
            "submission() {",
            f"echo {_BEGAN}",
            "mask=$(umask); umask 077",
            *(["cd || exit"] if self.login else []),
            f"mkdir -p -- {shlex.quote(dirname(block.directory) or '.')} || exit",
            f"if mkdir -- {folder} 2>/dev/null; then",
            f"trap {shlex.quote(f'rm -rf -- {folder}')} EXIT",
            *_writing(self.files(block)),
            f': >{shlex.quote(block.log)} || exit; umask "$mask"; trap - EXIT',
            f"setsid {shell} {shlex.quote(block.kept)} </dev/null >>{shlex.quote(block.log)} 2>&1 &",
            f"elif ! [ -d {folder} ]; then",
            f"echo cannot make {shlex.quote(folder)} >&2; exit 1",
            "fi",
            f"for try in {{1..100}}; do [ -s {folder}/pid ] && break; sleep 0.1; done",
            f"read -r pid start limit node <{folder}/pid || exit {_UNSURE}",
            'echo "grainlike $pid $start $node"',
            "}",
            "submission",
        ]
        return self._shell(block.host, block.native, "\n".join(lines) + "\n")

    def submitted(self, said: CommandResult) -> Answer:
        """Return what the answer to `submit` means: refused, too, where there was no session in which to submit."""
        found = self.native_id(said.stdout) if said.code == 0 else ""
        if found:
            return Answer("accepted", found, words_of(said))
        began = _BEGAN in said.stdout.splitlines()
        if said.code is None or said.code < 0 or (began and said.code in (0, _UNSURE, _SSH_FAILED)):
            return Answer("unclear", words=words_of(said) or "no answer in time")
        if began:
            return Answer("refused", words=words_of(said))
        words = _last_line(said)
        sure = said.code != _SSH_FAILED or _NO_SESSION.search(said.stderr)
        return Answer("refused" if sure else "unclear", words=words)

    def native_id(self, stdout: str) -> str:
        """Return pid and start time of the script, and the name of its machine: they are no other block's."""
        found = [*_PID.finditer(stdout)]
        return "{pid}:{start}@{node}".format(**found[-1].groupdict()) if found else ""

    def check(self, block: BlockRequest) -> NativeCommand:
        """Return `ssh HOST true`, with the user's flags."""
        shell = self._shell(block.host, block.native, "")
        return NativeCommand((*shell.argv[:-2], "true"))

    def checked(self, said: CommandResult) -> Answer:
        """Return what the answer to `check` means."""
        if said.code == 0:
            return Answer("accepted", words="it lets us in")
        return Answer("refused", words=_last_line(said))

    def list(self, user: str, host: str = "") -> tuple[NativeCommand, ...]:  # noqa: ARG002 - only our own can be seen
        """Return a shell that lists the blocks of one machine."""
        return (self.list_in(".local/state/grainlike/blocks", host),)

    def list_in(self, folder: str, host: str = "", native: Sequence[str] = ()) -> NativeCommand:
        """Return a shell that lists the blocks whose directories are in `folder` there, by their native names.

        Machines may share the directory: each tells of its own blocks, and of those that have not begun yet.
        """
        lines = [
            "cd || exit",
            _STARTED,
            _LIVES,
            "ticks=$(getconf CLK_TCK); read -r up rest </proc/uptime; up=${up%.*}; here=$(uname -n)",
            f"for folder in {shlex.quote(folder)}/gl*-*; do",
            '    [ -d "$folder" ] || continue',
            "    pid=- start=- limit=- node=$here left=- code=- state=pending",
            '    if [ -s "$folder/pid" ]; then',
            '        read -r pid start limit node <"$folder/pid" && [ "$node" = "$here" ] || continue',
            '        state=$(lives "$pid" "$start")',
            '        [ "$state" = ended ] || [ "$limit" = - ] || left=$((limit - up + start / ticks))',
            '        [ "$state" != ended ] || ! [ -s "$folder/code" ] || read -r code <"$folder/code"',
            '    elif [ -n "$(find "$folder" -maxdepth 0 -mmin +1)" ]; then state=stillborn; fi',
            '    echo "grainlike ${folder##*/} $state $pid $start $node $left $code"',
            "done",
            f"echo {_DONE}",
        ]
        return self._shell(host, native, "\n".join(lines) + "\n")

    def listed(self, said: CommandResult) -> Listing:
        """Return the blocks of one machine; without the last line the listing is not whole."""
        if said.code != 0 or _DONE not in said.stdout.splitlines():
            return Listing(failed=_last_line(said) or "no answer in time")
        return Listing(tuple(map(_listed, filter(_is_ours, _ROW.finditer(said.stdout)))))

    def end(self, natives: Sequence[str]) -> NativeCommand:
        """Return a shell that tells the scripts with these ids to end; they pass it to their workers."""
        return self.end_on("", natives)

    def end_on(
        self, host: str, natives: Sequence[str], *, now: bool = False, native: Sequence[str] = ()
    ) -> NativeCommand:
        """Return a shell on `host` that ends blocks; `now` kills all that is in their sessions."""
        lines = [_STARTED, _LIVES, 'end_now() { kill -KILL $(members "$1"); }']
        lines.append('end_running() { kill -TERM "$1"; }; end_orphaned() { kill -TERM $(members "$1"); }')
        for found in filter(None, map(_NATIVE.fullmatch, natives)):
            pid, start = found["pid"], found["start"]
            if int(pid) > 1:
                lines.append(
                    f"state=$(lives {pid} {start}); [ $state = ended ] || end_{'now' if now else '$state'} {pid}"
                )
        return self._shell(host, native, "\n".join([*lines, ":"]) + "\n")

    def forget_on(self, host: str, folders: Sequence[str], native: Sequence[str] = ()) -> NativeCommand:
        """Return a shell on `host` that prints the ends of the logs of ended blocks, and removes their directories."""
        lines = ["cd || exit"]
        for folder in folders:
            lines += [
                f"echo grainlike log of {shlex.quote(basename(folder))}",
                f"{{ tail -c {TAIL_BYTES} -- {shlex.quote(folder)}/log 2>/dev/null; echo; }} | sed 's/^/| /'",
                f"rm -rf -- {shlex.quote(folder)} || exit; echo grainlike forgot it",
            ]
        return self._shell(host, native, "\n".join(lines) + "\n")

    def forgotten(self, said: CommandResult) -> dict[str, str]:
        """Return the ends of the logs of the blocks that `forget_on` has removed, by native name."""
        return {
            found[1]: "".join(line.removeprefix("| ") for line in found[2].splitlines(keepends=True)).rstrip("\n")
            for found in _LOG.finditer(said.stdout)
        }

    def forward(self, host: str, port: int, target: str, native: Sequence[str] = ()) -> NativeCommand:
        """Return a connection by which `port` of loopback there is `target` here, until its standard input ends.

        It prints `forwards` once it is there. A connection that others share would go on without us.
        """
        keep = ("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3", "-o", "ControlPath=none")
        strict = ("-o", "ExitOnForwardFailure=yes", "-R", f"127.0.0.1:{port}:{target}")
        return NativeCommand((*_ssh(native), *keep, *strict, "-T", "--", host, f"echo {_TUNNEL}; cat >/dev/null"))

    forwards: ClassVar[str] = _TUNNEL
    """Line that a connection prints once it forwards."""


def _ssh(native: Sequence[str]) -> tuple[str, ...]:
    return ("ssh", *native, "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_S}")


def _forgotten(block: BlockRequest) -> str:
    """Line that removes the directory of a block where the head sees none, unless the head is to read its log first.

    Exit code 3 is a worker's that has lost its head: if it ever had one, no program is left to read the log.
    """
    folder, log = shlex.quote(block.directory), shlex.quote(block.log)
    lost = f'[ "${{code-1}}" -eq 3 ] && grep -q "joined cluster" {log}'
    return f'if [ "${{code-1}}" -eq 0 ] || {{ {lost}; }}; then rm -rf -- {folder}; fi'


def _last_line(said: CommandResult) -> str:
    """Return the last line of what `ssh` says, which is why it failed; warnings come before it."""
    lines = [line.strip() for line in (said.stderr or said.stdout).splitlines() if line.strip()]
    return lines[-1] if lines else words_of(said)


def _is_ours(row: re.Match[str]) -> bool:
    return is_native_name(row["name"])


def _listed(row: re.Match[str]) -> ListedBlock:
    state = row["state"]
    code = "it was killed" if row["code"] == "-" else f"exit code {row['code']}"
    return ListedBlock(
        native="" if row["pid"] == "-" else f"{row['pid']}:{row['start']}@{row['node']}",
        name=row["name"],
        state="running" if state in ("running", "orphaned") else "pending" if state == "pending" else "ended",
        reason=_REASONS.get(state, code if state == "ended" else ""),
        left_s=None if row["left"] == "-" else max(0.0, float(row["left"])),
        nodes=(row["node"],),
    )


class LocalDialect(SSHDialect):
    """Text for blocks on this machine: the same shell, without `ssh` before it.

    Example::

        >>> LocalDialect().list("ann")[0].argv
        ('bash', '-s')
    """

    kind = "local"
    title = "this machine"
    finders: ClassVar[tuple[str, ...]] = ()
    rules: ClassVar[FlagRules] = FlagRules({})
    login: ClassVar[bool] = False

    def check_native(self, words: Sequence[str]) -> None:
        """Check the user's native flags.

        Raises:
            ValueError: there are some, and no program reads them.
        """
        if words:
            raise ValueError(f"native: there is no batch system that {words[0]!r} could be said to")

    def _shell(self, block_host: str, native: Sequence[str], text: str) -> NativeCommand:  # noqa: ARG002 - as over `ssh`
        return NativeCommand(("bash", "-s"), text)
