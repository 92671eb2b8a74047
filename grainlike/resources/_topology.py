"""`Topology`: which cores and devices of a machine are near each other, read from the text of its sysfs files."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from grainlike.errors import ResourceSpecError
from grainlike.resources._kinds import MOST_IDS

_CPULIST = re.compile(r"/sys/devices/system/node/node([0-9]+)/cpulist")
_PCI_CLASS = re.compile(r"(/sys/bus/pci/devices/([0-9a-f:.]+))/class")
_RANGE = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7}))?")

_MAKERS = frozenset({"0x10de", "0x1002"})  # of devices that are computed on: a server's own screen is another maker's
_DISPLAY, _ACCELERATOR = "0x03", "0x12"  # beginnings of PCI class codes


@dataclass(frozen=True, slots=True)
class NumaNode:
    """Cores and devices that share a memory controller.

    Attributes:
        number: its number on the machine.
        socket: the processor package that it is a part of.
        cores: ids of its cores, ascending; hardware threads count as cores, as everywhere.
        gpus: ids of the devices that are attached to it, ascending.
    """

    number: int
    socket: int
    cores: tuple[int, ...]
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Topology:
    """The NUMA nodes of a machine, by number. Without any, all cores are equally near.

    Attributes:
        nodes: those that have cores.
        sources: which files `read` looks at, as patterns of their paths.

    Example:
        >>> Topology.read({"/sys/devices/system/node/node0/cpulist": "0-3"}).nodes
        (NumaNode(number=0, socket=0, cores=(0, 1, 2, 3), gpus=()),)
    """

    sources: ClassVar[tuple[str, ...]] = (
        "/sys/devices/system/node/node*/cpulist",
        "/sys/devices/system/cpu/cpu*/topology/physical_package_id",
        "/sys/bus/pci/devices/*/class",
        "/sys/bus/pci/devices/*/vendor",
        "/sys/bus/pci/devices/*/numa_node",
    )
    nodes: tuple[NumaNode, ...] = ()

    @property
    def sockets(self) -> Mapping[int, tuple[NumaNode, ...]]:
        """The nodes of each socket."""
        numbers = sorted({node.socket for node in self.nodes})
        return {number: tuple(node for node in self.nodes if node.socket == number) for number in numbers}

    @classmethod
    def read(cls, files: Mapping[str, str]) -> "Topology":
        """Make it of files' text by absolute path; what is missing is not known, and does no harm.

        Looked at are the files that `sources` names. Devices are numbered in the order of their PCI addresses.

        Raises:
            ResourceSpecError: a file holds what the kernel would not write; it names the file.
        """
        cores = {int(found[1]): _ids(path, text) for path, text in files.items() if (found := _CPULIST.fullmatch(path))}
        homes = list(_homes(files))
        nodes = (
            NumaNode(number, _socket(files, ids[0]), ids, tuple(gpu for gpu, at in enumerate(homes) if at == number))
            for number, ids in sorted(cores.items())
            if ids  # memory alone is no place to run
        )
        return cls(tuple(nodes))


def _homes(files: Mapping[str, str]) -> Iterator[int]:
    """Give the NUMA node of each device, in the order of their addresses; -1 where the kernel does not know it."""
    devices = sorted((found[2], found[1]) for path in files if (found := _PCI_CLASS.fullmatch(path)))
    for _, device in devices:
        kind, maker = files[f"{device}/class"].strip(), files.get(f"{device}/vendor", "").strip()
        if maker in _MAKERS and kind.startswith((_DISPLAY, _ACCELERATOR)):
            yield _number(files, f"{device}/numa_node", -1)


def _socket(files: Mapping[str, str], core: int) -> int:
    return _number(files, f"/sys/devices/system/cpu/cpu{core}/topology/physical_package_id", 0)


def _number(files: Mapping[str, str], path: str, default: int) -> int:
    text = files.get(path)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise ResourceSpecError(f"{path}: {text.strip()!r} is no number") from None


def _ids(path: str, text: str) -> tuple[int, ...]:
    """Read `0-3,8,10-11`."""
    return tuple(sorted({one for part in text.strip().split(",") if part for one in _range(path, part)}))


def _range(path: str, part: str) -> Iterable[int]:
    match = _RANGE.fullmatch(part)
    if match is None:
        raise ResourceSpecError(f"{path}: {part!r} is no range of ids")
    first, last = int(match[1]), int(match[2] or match[1])
    if not first <= last < MOST_IDS:
        raise ResourceSpecError(f"{path}: {part!r} is no range of ids below {MOST_IDS}")
    return range(first, last + 1)
