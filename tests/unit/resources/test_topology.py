"""Topologies, read from the text of sysfs files."""

from fnmatch import fnmatch

import pytest

from grainlike.errors import ResourceSpecError
from grainlike.resources import NumaNode, Topology

CPULIST = "/sys/devices/system/node/node0/cpulist"


def test_one_socket_without_devices(sysfs):
    assert Topology.read(sysfs["small"]) == Topology((NumaNode(0, 0, (0, 1)),))


def test_two_sockets_whose_cores_are_numbered_by_turns(sysfs):
    topology = Topology.read(sysfs["xeon"])
    assert topology.sockets == {0: topology.nodes[:1], 1: topology.nodes[1:]}
    assert topology.nodes[1] == NumaNode(1, 1, tuple(range(1, 80, 2)))


def test_eight_nodes_with_devices_at_every_other_one(sysfs):
    topology = Topology.read(sysfs["epyc"])
    assert [node.number for node in topology.sockets[1]] == [4, 5, 6, 7]
    assert topology.nodes[3].cores == (*range(48, 64), *range(176, 192))
    assert {node.number: node.gpus for node in topology.nodes if node.gpus} == {
        1: (2, 3),
        3: (0, 1),
        5: (6, 7),
        7: (4, 5),
    }


def test_files_come_in_any_order_and_only_those_of_the_sources_are_read(sysfs):
    files = sysfs["epyc"]
    assert Topology.read(dict(reversed(files.items()))) == Topology.read(files)
    for machine in sysfs.values():
        named = {path: text for path, text in machine.items() if any(fnmatch(path, one) for one in Topology.sources)}
        assert Topology.read(named) == Topology.read(machine)


def test_what_is_missing_does_no_harm():
    assert Topology.read({}) == Topology()
    assert Topology().sockets == {}
    assert Topology.read({CPULIST: "0\n"}) == Topology((NumaNode(0, 0, (0,)),))
    device = "/sys/bus/pci/devices/0000:01:00.0"
    files = {CPULIST: "0", f"{device}/class": "0x030200"}
    assert Topology.read(files).nodes[0].gpus == ()
    assert Topology.read(files | {f"{device}/vendor": "0x10de"}).nodes[0].gpus == ()
    files |= {f"{device}/vendor": "0x1002", f"{device}/class": "0x120000", f"{device}/numa_node": "0"}
    assert Topology.read(files).nodes[0].gpus == (0,)


def test_a_node_that_is_memory_alone_is_no_node():
    assert Topology.read({CPULIST: "0-1\n", CPULIST.replace("0", "1"): "\n"}).nodes == (NumaNode(0, 0, (0, 1)),)


@pytest.mark.parametrize("text", ["x", "0-", "3-1", "0-99999999", "0-70000", "-1", "0--1", "0x1", "1 2"])
def test_a_list_that_no_kernel_writes_is_refused_with_its_file(text):
    with pytest.raises(ResourceSpecError, match=rf"{CPULIST}: .* is no range of ids"):
        Topology.read({CPULIST: text})


def test_a_number_that_is_none_is_refused_with_its_file():
    path = "/sys/devices/system/cpu/cpu0/topology/physical_package_id"
    with pytest.raises(ResourceSpecError, match=rf"{path}: 'x' is no number"):
        Topology.read({CPULIST: "0", path: "x\n"})
