"""Machines, as the text of their sysfs files."""

import pytest

# One processor of two cores, no device: captured from a virtual machine.
CAPTURED = """
/sys/devices/system/node/node0/cpulist:0-1
/sys/devices/system/node/node0/distance:10
/sys/devices/system/cpu/cpu0/topology/physical_package_id:0
/sys/devices/system/cpu/cpu1/topology/physical_package_id:0
/sys/devices/system/cpu/cpu0/topology/thread_siblings_list:0
/sys/devices/system/cpu/cpu1/topology/thread_siblings_list:1
/sys/bus/pci/devices/0000:00:00.0/class:0x060000
/sys/bus/pci/devices/0000:00:01.0/class:0xffff00
/sys/bus/pci/devices/0000:00:03.0/class:0x020000
/sys/bus/pci/devices/0000:00:00.0/vendor:0x8086
/sys/bus/pci/devices/0000:00:01.0/vendor:0x1af4
/sys/bus/pci/devices/0000:00:03.0/vendor:0x1af4
/sys/bus/pci/devices/0000:00:00.0/numa_node:-1
/sys/bus/pci/devices/0000:00:01.0/numa_node:-1
/sys/bus/pci/devices/0000:00:03.0/numa_node:-1
"""

# Two Xeons whose firmware numbers the cores by turns, with hardware threads: a layout common in rack servers.
XEON = {0: ",".join(map(str, range(0, 80, 2))), 1: ",".join(map(str, range(1, 80, 2)))}

# Two EPYCs of four NUMA nodes each, with hardware threads and eight devices, two at every other node: a DGX A100, after
# the output of `nvidia-smi topo -m` that its manual shows.
EPYC = {node: f"{node * 16}-{node * 16 + 15},{node * 16 + 128}-{node * 16 + 143}" for node in range(8)}
DEVICES = {"07": 3, "0f": 3, "47": 1, "4e": 1, "87": 7, "90": 7, "b7": 5, "bd": 5}


def written(nodes, sockets, devices=()):
    """Give the files of a machine as the kernel writes them; a network card and a server's own screen are on board."""
    files = {}
    for number, cpulist in nodes.items():
        files[f"/sys/devices/system/node/node{number}/cpulist"] = f"{cpulist}\n"
        first = cpulist.partition(",")[0].partition("-")[0]
        files[f"/sys/devices/system/cpu/cpu{first}/topology/physical_package_id"] = f"{sockets(number)}\n"
    cards = {bus: ("0x030200", "0x10de", node) for bus, node in dict(devices).items()}
    cards |= {"05": ("0x020700", "0x15b3", 0), "62": ("0x030000", "0x1a03", 0), "0e": ("0x040300", "0x10de", 0)}
    for bus, said in cards.items():
        for name, text in zip(("class", "vendor", "numa_node"), said, strict=True):
            files[f"/sys/bus/pci/devices/0000:{bus}:00.0/{name}"] = f"{text}\n"
    return files


@pytest.fixture(scope="session")
def sysfs():
    """The files of machines by name: `small`, `xeon`, `epyc`."""
    small = {path: f"{text}\n" for path, _, text in (line.rpartition(":") for line in CAPTURED.split())}
    return {
        "small": small,
        "xeon": written(XEON, lambda node: node),
        "epyc": written(EPYC, lambda node: node // 4, DEVICES),
    }
