"""Run a command in a virtual machine whose kernel keeps memory limits, on this machine's own files.

Many machines, and most containers, cannot delegate the memory controller of cgroup v2. An emulated one can: its root is
this file system, read only (9p), with a fresh `/tmp` and a cgroup tree of its own. It needs `qemu-system-x86_64`, a
static `busybox`, and an unpacked kernel package with its modules, of which nothing is installed:

    apt-get install --no-install-recommends qemu-system-x86 busybox-static
    apt-get download linux-image-6.1.0-50-amd64 && dpkg -x linux-image-*.deb kernel
    python tests/kernel/in_machine.py --kernel kernel -- python -m pytest tests/kernel

The exit code is the command's; 70 when the machine did not come up, or did not end in time.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ENDED = "grainlike-machine-ended"
NO_MACHINE = 70
MODULES = ["virtio_pci", "9pnet_virtio", "9p"]

INIT = """#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
for module in {modules}; do /bin/busybox insmod /modules/$module || echo "no module $module"; done
/bin/busybox mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 files /root || echo "no files"
at() {{ /bin/busybox mount -t "$1" "$1" "/root/$2"; }}
at proc proc; at sysfs sys; at devtmpfs dev; at tmpfs tmp; at tmpfs run
/bin/busybox mkdir -p /root/dev/shm; at tmpfs dev/shm
at cgroup2 sys/fs/cgroup
/bin/busybox ip link set lo up
cd /root
/bin/busybox chroot /root /bin/sh -c {command}
echo "{ended} $?"
/bin/busybox sync
/bin/busybox poweroff -f
"""


def main() -> int:
    """Run the command line after `--` in the machine, from the current directory; return its exit code."""
    options = _options()
    kernel, modules = _kernel(options.kernel)
    with tempfile.TemporaryDirectory() as made:
        image = Path(made, "initramfs")
        image.write_bytes(_initramfs(modules, options.command))
        return _boot(kernel, image, options.memory, options.limit)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernel", type=Path, default=Path("/"), help="where a kernel package lies unpacked")
    parser.add_argument("--memory", default="1536", help="what the machine has, in MiB")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds that all of it may take")
    parser.add_argument("command", nargs="+")
    return parser.parse_args()


def _boot(kernel: Path, image: Path, memory: str, limit: float) -> int:
    share = "local,path=/,mount_tag=files,security_model=none,readonly=on,multidevs=remap"
    command = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio"]
    command += ["-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "2", "-m", memory, "-no-reboot"]
    command += ["-kernel", str(kernel), "-initrd", str(image), "-virtfs", share]
    command += ["-append", "console=ttyS0 quiet panic=-1 mitigations=off nokaslr audit=0"]
    code = NO_MACHINE
    machine = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace")
    with machine:
        try:
            assert machine.stdout is not None
            os.set_blocking(machine.stdout.fileno(), True)
            for line in _lines_until(machine, limit):
                told = re.search(rf"{ENDED} (\d+)", line)
                if told:
                    code = int(told[1])
                else:
                    print(line, end="", flush=True)
        finally:
            machine.kill()
    return code


def _lines_until(machine: "subprocess.Popen[str]", limit: float) -> Iterator[str]:
    """What the machine writes, until it ends; after `limit` seconds it is ended."""
    import threading

    assert machine.stdout is not None
    timer = threading.Timer(limit, machine.kill)
    timer.start()
    try:
        yield from machine.stdout
    finally:
        timer.cancel()


def _kernel(root: Path) -> tuple[Path, list[Path]]:
    """The newest kernel below `root`, and the modules that the machine must load, in order."""
    images = sorted(root.glob("boot/vmlinuz-*"))
    if not images:
        raise SystemExit(f"no boot/vmlinuz-* in {root}: unpack a kernel package there (dpkg -x)")
    home = next(root.glob(f"**/lib/modules/{images[-1].name.removeprefix('vmlinuz-')}"))
    there = {path.stem.replace("-", "_"): path for path in home.glob("kernel/**/*.ko")}
    found: dict[Path, None] = {}
    for name in MODULES:
        found |= dict.fromkeys(_with_needs(name, there))
    return images[-1], list(found)


def _with_needs(name: str, there: dict[str, Path]) -> Iterator[Path]:
    """A module and what it needs, that first; nothing where the kernel has it built in."""
    if name in there:
        told = re.search(rb"\0depends=([\w,-]*)\0", there[name].read_bytes())
        for need in told[1].decode().replace("-", "_").split(",") if told else ():
            yield from _with_needs(need, there)
        yield there[name]


def _initramfs(modules: list[Path], command: list[str]) -> bytes:
    busybox = shutil.which("busybox")
    if busybox is None:
        raise SystemExit("no busybox here: install busybox-static")
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH")}
    kept |= {"HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "TERM": "dumb"}
    words = ["cd", str(Path.cwd()), "&&", "exec", "env", *(f"{k}={v}" for k, v in kept.items())]
    line = " ".join([*words, shlex.join(command)])
    init = INIT.format(modules=" ".join(path.name for path in modules), command=shlex.quote(line), ended=ENDED)
    files = {"init": init.encode(), "bin/busybox": Path(busybox).read_bytes()}
    files |= {f"modules/{path.name}": path.read_bytes() for path in modules}
    return _cpio(["bin", "modules", "proc", "root"], files)


def _cpio(directories: list[str], files: dict[str, bytes]) -> bytes:
    """An archive as the kernel reads it at its start ("newc")."""
    entries = [(name, 0o40755, b"") for name in directories]
    entries += [(name, 0o100755, data) for name, data in files.items()]
    entries.append(("TRAILER!!!", 0, b""))
    out = bytearray()
    for number, (name, mode, data) in enumerate(entries, 1):
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        out += b"070701" + "".join(f"{field:08X}" for field in fields).encode() + name.encode() + b"\0"
        out += b"\0" * (-len(out) % 4)
        out += data + b"\0" * (-len(data) % 4)
    return bytes(out)


if __name__ == "__main__":
    sys.exit(main())
