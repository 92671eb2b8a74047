"""Machines that are reached by a real sshd on this one: Debian's openssh-server, as root, with namespaces for each.

A machine has a home directory, a host name and processes of its own, and sees nothing of the head's state directory;
killed, it loses all its processes at once, as by a power cut. Keys, host keys, `known_hosts` and the `ssh_config` are
made anew. All that is written is in one folder, and ends with the block. Several may run side by side.
"""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from limits import LIMIT_S
from ports import free_port

__all__ = ["Machine", "SSHHere", "missing"]

PROGRAMS = ("sshd", "ssh", "ssh-keygen", "unshare", "nsenter", "ip")
HOME = pwd.getpwuid(os.geteuid()).pw_dir
REPOSITORY = Path(__file__).parents[2]
ADMIN_PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"

RELAY = """\
import os, socket, sys, threading
far = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def back():
    while data := far.recv(65536):
        os.write(1, data)
    os._exit(0)
threading.Thread(target=back, daemon=True).start()
while data := os.read(0, 65536):
    far.sendall(data)
"""


def missing() -> list[str]:
    """Return which programs are not installed."""
    return [name for name in PROGRAMS if shutil.which(name, path=ADMIN_PATH) is None]


@dataclass(slots=True, eq=False)
class Machine:
    """A machine: `home` is what it has as home directory; `far` if its loopback is its own, too."""

    name: str
    port: int
    folder: Path
    home: Path
    far: bool = False
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def runs(self) -> bool:
        """True while it is up."""
        return self.process is not None and self.process.poll() is None

    @property
    def authorized(self) -> Path:
        """File of the keys that it lets in."""
        return self.home / ".ssh" / "authorized_keys"

    def processes(self) -> dict[int, str]:
        """Return the command lines of its processes by their ids here, without those of sshd and what ssh runs."""
        sessions = self._sessions().values()
        return {pid: words for one in sessions if not _is_of_ssh(one) for pid, words in one.items()}

    def commands(self) -> dict[int, str]:
        """Return the command lines of what ssh runs there now; the end of a connection ends it, a moment later."""
        sessions = self._sessions().values()
        found = {pid: words for one in sessions if _is_of_ssh(one) for pid, words in one.items()}
        return {pid: words for pid, words in found.items() if not _is_sshd(words)}

    def _sessions(self) -> dict[str, dict[int, str]]:
        """Return its processes by the sessions of the kernel: each connection to sshd has one, and each block."""
        found: dict[str, dict[int, str]] = {}
        if self.process is None:
            return found
        ours = Path(f"/proc/{self.process.pid}/ns/pid_for_children").readlink()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                there = (folder / "ns" / "pid").readlink()
                words = (folder / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode()
                session = (folder / "stat").read_text().rpartition(")")[2].split()[3]
            except OSError:
                continue
            if there == ours and words:
                found.setdefault(session, {})[int(folder.name)] = words
        return found

    def files(self) -> list[str]:
        """Return the files in its home directory, without those that it had from the start."""
        # Not `rglob`, which raises where a folder is removed meanwhile.
        everything = (Path(folder, name) for folder, _, names in os.walk(self.home) for name in names)
        found = (path for path in everything if path.is_file() and ".ssh" not in path.parts)
        return sorted(str(path.relative_to(self.home)) for path in found if path.name != "sshd_config")

    def blocks(self) -> list[Path]:
        """Return the directories of its blocks."""
        return sorted((self.home / ".local/state/grainlike/blocks").glob("gl*"))


class SSHHere:
    """Machines that `ssh` reaches with `config`, from `with SSHHere(folder) as machines` on.

    Attributes:
        config: file for `ssh -F`.
        head: folder that no machine sees, for the state of heads.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "ssh_config"
        self.head = folder / "head"
        self.machines: dict[str, Machine] = {}

    def __enter__(self) -> Self:
        for name in ("head", "nothing"):
            (self.folder / name).mkdir(mode=0o700)
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        for name in ("key", "other_key"):
            self._say("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name)
        (self.folder / "relay.py").write_text(RELAY)
        self.write_config()
        return self

    def __exit__(self, *_: object) -> None:
        for machine in self.machines.values():
            self.kill(machine)

    def native(self) -> list[str]:
        """Return flags with which `ssh` finds the machines."""
        return ["-F", str(self.config)]

    # --- machines ----------------------------------------------------------------------------------------------------

    def add(
        self, name: str, *, key: str = "key", home: Path | None = None, up: bool = True, far: bool = False
    ) -> Machine:
        """Add a machine that lets `key` in, and return it once it listens."""
        folder = self.folder / name
        folder.mkdir(mode=0o755)
        made = Machine(name, free_port(), folder, home or folder / "home", far)
        made.home.mkdir(mode=0o755, exist_ok=True)
        (made.home / ".ssh").mkdir(mode=0o700, exist_ok=True)
        (made.home / "tmp").mkdir(mode=0o700, exist_ok=True)
        shutil.copyfile(self.folder / f"{key}.pub", made.authorized)
        self._say("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "host_key")
        self._write_sshd_config(made)
        self.machines[name] = made
        if up:
            self.start(made)
        self.write_config()
        return made

    def start(self, machine: Machine) -> None:
        """Start a machine; return once it listens."""
        script = [f"hostname {machine.name}", *(["ip link set lo up"] if machine.far else [])]
        for kept in _below_home():
            there = shlex.quote(str(machine.home / kept.relative_to(HOME)))
            script += [f"mkdir -p {there}", f"mount --rbind {shlex.quote(str(kept))} {there}"]
        script += [
            f"mount --rbind {shlex.quote(str(machine.home))} {shlex.quote(HOME)}",
            f"mount --bind {shlex.quote(str(self.folder / 'nothing'))} {shlex.quote(str(self.head))}",
            f"exec {shutil.which('sshd', path=ADMIN_PATH)} -D -e -f {shlex.quote(str(machine.folder / 'sshd_config'))}",
        ]
        kinds = ["--mount", "--pid", "--uts", *(["--net"] if machine.far else [])]
        with (machine.folder / "sshd.out").open("wb") as out:
            machine.process = subprocess.Popen(
                ["unshare", *kinds, "--fork", "--kill-child", "--mount-proc", "sh", "-ec", "\n".join(script)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={"PATH": ADMIN_PATH, "HOME": HOME},
            )
        self.write_config()
        self._until_it_listens(machine)

    def kill(self, machine: Machine) -> None:
        """End a machine with all that runs on it, at once."""
        if machine.process is not None:
            machine.process.kill()
            machine.process.wait()

    def on(self, machine: Machine, *words: str) -> str:
        """Run a command on a machine, by ssh; return what it prints."""
        return self._say("ssh", *self.native(), "-T", machine.name, shlex.join(words))

    def write_config(self) -> None:
        """Write the `ssh_config` and `known_hosts` anew: who is reached how may have changed."""
        known = [
            f"{machine.name} {(machine.folder / 'host_key.pub').read_text().strip()}"
            for machine in self.machines.values()
        ]
        (self.folder / "known_hosts").write_text("\n".join(known) + "\n")
        lines: list[str] = []
        for machine in self.machines.values():
            lines += [f"Host {machine.name}", "  HostName 127.0.0.1", f"  Port {machine.port}"]
            lines += [f"  HostKeyAlias {machine.name}"]
            if machine.far and machine.process is not None:
                relay = f"{sys.executable} {self.folder / 'relay.py'} {machine.port}"
                lines += [f"  ProxyCommand nsenter --target {machine.process.pid} --net {relay}"]
        lines += ["Host *", f"  User {pwd.getpwuid(os.geteuid()).pw_name}", f"  IdentityFile {self.folder / 'key'}"]
        lines += ["  IdentitiesOnly yes", f"  UserKnownHostsFile {self.folder / 'known_hosts'}"]
        lines += ["  GlobalKnownHostsFile none", "  StrictHostKeyChecking yes"]
        fresh = self.config.with_suffix(".new")
        fresh.write_text("\n".join(lines) + "\n")
        fresh.chmod(0o600)
        fresh.replace(self.config)

    def _write_sshd_config(self, machine: Machine) -> None:
        settings = {
            "Port": machine.port,
            "ListenAddress": "127.0.0.1",
            "HostKey": machine.folder / "host_key",
            "PidFile": "none",
            "AuthorizedKeysFile": ".ssh/authorized_keys",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "PermitRootLogin": "prohibit-password",
            "UsePAM": "no",
            "MaxStartups": "100",
            "MaxSessions": "100",
            "SetEnv": f"TMPDIR={HOME}/tmp",
        }
        (machine.folder / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))

    def _until_it_listens(self, machine: Machine) -> None:
        end = time.monotonic() + LIMIT_S
        words = ["ssh", *self.native(), "-o", "BatchMode=yes", "-T", machine.name, "true"]
        while True:
            done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
            if done.returncode == 0 or "Permission denied" in done.stderr:
                return
            if time.monotonic() > end or not machine.runs:
                raise TimeoutError(done.stderr + (machine.folder / "sshd.out").read_text()[-3000:])
            time.sleep(0.05)  # sshd tells nobody that it listens

    def _say(self, *words: object) -> str:
        command = [str(word) for word in words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr}"
        return done.stdout.strip()

    def with_home(self, home: Path, words: Sequence[str]) -> list[str]:
        """Return words that run a command where `home` is the user's home directory, as `ssh` sees it, too."""
        script = [f"mount --rbind {shlex.quote(str(home))} {shlex.quote(HOME)}", 'exec "$@"']
        for kept in _below_home():
            there = shlex.quote(str(home / kept.relative_to(HOME)))
            script[:0] = [f"mkdir -p {there}", f"mount --rbind {shlex.quote(str(kept))} {there}"]
        return ["unshare", "--mount", "sh", "-ec", "\n".join(script), "sh", *words]


def _below_home() -> list[Path]:
    """Return what our interpreter needs and other home directories would hide."""
    needed = [REPOSITORY, *(Path(one).resolve() for one in (sys.prefix, sys.base_prefix))]
    chosen: list[Path] = []
    for path in sorted({path for path in needed if path.is_relative_to(HOME) and path != Path(HOME)}):
        if not any(path.is_relative_to(other) for other in chosen):
            chosen.append(path)
    return chosen


def _is_sshd(words: str) -> bool:
    return words.startswith("sshd") or words.partition(" ")[0].endswith("/sshd")


def _is_of_ssh(session: Mapping[int, str]) -> bool:
    """Return True for the session of a connection, which the shell of its command may outlive."""
    return any(_is_sshd(words) or words.startswith(("bash -c ", "bash -s")) for words in session.values())
