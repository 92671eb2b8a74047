"""Where a worker's cores and devices lie, read from captured trees and from this machine."""

from pathlib import Path

import pytest

from grainlike.resources import NumaNode, Topology
from grainlike_worker.daemon._probe import own_cores, own_topology, topology

TREE = {
    "sys/devices/system/node/node0/cpulist": "0-1,4-5",
    "sys/devices/system/node/node1/cpulist": "2-3,6-7",
    "sys/devices/system/node/possible": "0-1",
    "sys/devices/system/cpu/cpu0/topology/physical_package_id": "0",
    "sys/devices/system/cpu/cpu2/topology/physical_package_id": "1",
    "sys/devices/pci0000:80/0000:81:00.0/class": "0x030200",
    "sys/devices/pci0000:80/0000:81:00.0/vendor": "0x10de",
    "sys/devices/pci0000:80/0000:81:00.0/numa_node": "1",
}


def test_a_captured_tree_is_read_through_the_links_of_its_bus(tmp_path):
    for name, text in TREE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    bus = tmp_path / "sys/bus/pci/devices"
    bus.mkdir(parents=True)
    (bus / "0000:81:00.0").symlink_to("../../../devices/pci0000:80/0000:81:00.0")
    assert topology(tmp_path).nodes == (NumaNode(0, 0, (0, 1, 4, 5)), NumaNode(1, 1, (2, 3, 6, 7), (0,)))


def test_without_the_files_nothing_is_known(tmp_path):
    assert topology(tmp_path) == Topology()


@pytest.mark.skipif(not Path("/sys/devices/system/node").is_dir(), reason="the kernel shows no NUMA nodes here")
def test_this_machine_has_the_cores_that_this_process_may_use():
    cores = [core for node in topology().nodes for core in node.cores]
    assert len(cores) == len({*cores})
    assert {*own_cores()} <= {*cores}


def test_the_files_of_this_machine_are_read_once(monkeypatch):
    own = own_topology()
    monkeypatch.setattr("grainlike_worker.daemon._probe._read", None)
    assert own_topology() is own
