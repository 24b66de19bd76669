"""The fluid model beside a packet-level simulator, with equal flows and paths."""

import numpy as np
import pytest

from heddle.library.fluid.completion import completion_times
from tests.support.packets.packet_simulator import REFERENCE, Run, address, murmur3, node_at


def compared(case):
    """Return the links of each flow, the fluid model's times and the simulator's."""
    run = Run(REFERENCE / "topo.txt")
    paths, sizes, starts, measured = zip(*run.flows(REFERENCE / f"fct_{case}.txt"), strict=True)
    places = np.full((len(paths), 4), -1, dtype=np.int64)
    for row, path in enumerate(paths):
        places[row, : len(path)] = path
    capacity, starts_ns = np.array(run.rate_bps, dtype=np.float64), np.array(starts, dtype=np.float64)
    found = completion_times(places, capacity, np.array(sizes, dtype=np.float64), start_ns=starts_ns)
    return places, found.completion_ns, np.array(measured, dtype=np.float64)


def test_the_simulators_hash_is_murmur3():
    words = [[int.from_bytes(text[i : i + 4], "little") for i in range(0, len(text), 4)] for text in (b"", b"test")]
    assert [murmur3(words[0], 1), murmur3(words[1], 0)] == [0x514E28B7, 0xBA6BD213]


@pytest.mark.parametrize("node", [0, 63, 255, 256, 1000])
def test_a_hosts_address_maps_back_to_its_number(node):
    assert node_at(address(node)) == node


@pytest.mark.parametrize("congestion_control", ["dcqcn", "hpcc"])
def test_under_ecmp_the_same_flows_are_slow(congestion_control):
    _, fluid, measured = compared(f"{congestion_control}_ecmp")
    assert np.corrcoef(fluid, measured)[0, 1] >= 0.89


@pytest.mark.parametrize("congestion_control", ["dcqcn", "hpcc"])
def test_on_planned_paths_flows_take_at_most_a_quarter_longer(congestion_control):
    places, fluid, measured = compared(f"{congestion_control}_plan")
    assert np.bincount(places[places >= 0]).max() == 1
    assert 1 <= np.median(measured / fluid) <= 1.25


@pytest.mark.parametrize("congestion_control", ["dcqcn", "hpcc"])
def test_an_incast_takes_as_long_as_the_receivers_link_needs(congestion_control):
    _, fluid, measured = compared(f"{congestion_control}_incast")
    assert np.median(measured / fluid) == pytest.approx(1, abs=0.15)
    assert max(measured) / max(fluid) == pytest.approx(1, abs=0.25)
