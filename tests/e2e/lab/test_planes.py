"""Two planes on packets, which keep to their planned cables; a port of a NIC costs that NIC half, others nothing."""

import pytest

from heddle.mininet_topos.routed.lab import RoutedLab
from tests.support.packets.plane_lab import PATHS, costs, planned, run_through_a_cut, touched_by, two_planes

pytestmark = [pytest.mark.e2e, pytest.mark.alone]

PORT = "h1-n0/p0"


def run(shape: tuple[int, int, int], cut_s: float, seconds: float) -> None:
    fabric = two_planes(*shape)
    flows = planned(fabric)
    with RoutedLab(fabric) as lab:
        result = run_through_a_cut(lab, flows, PORT, cut_s, seconds)
        found = costs(fabric, flows, result, cut_s, seconds)
        halved = touched_by(fabric, flows, PORT)
        print(
            "FIGURES "
            + ", ".join(f"{nic} {before:.3f} then {after:.3f}" for nic, (before, after) in sorted(found.items()))
            + f"; flows of {PORT}: {sorted(halved)}; latest NIC "
            f"{max(nic.max_late_ns for nic in result.nics.values()) / 1e6:.0f} ms"
        )
        assert len(halved) == 2
        for nic, (before, after) in found.items():
            assert before > 0.95
            assert after == pytest.approx(before / 2 if nic in halved else before, abs=0.05)
        for flow, done in zip(flows, result.flows, strict=True):
            plane = fabric.nic_by_id[flow.src_nic].plane
            assert len(flow.path_set.paths) == PATHS
            for path, sent in zip(flow.path_set.paths, done.request.paths, strict=True):
                stream = lab.stream_of(done.request)._replace(udp_source_port=sent.udp_source_port)
                crossed = {link for link in result.capture.links_of(stream) if link in fabric.cable_by_link}
                assert crossed == {link for link in path.links if link in fabric.cable_by_link}
                ends = {end.partition(":")[0] for link in crossed for end in link.split(">")}
                assert {fabric.plane_of_switch[switch] for switch in ends} == {plane}


def test_a_port_of_a_nic_that_fails_halves_its_flows_and_no_others_and_packets_keep_to_their_planes():
    run((2, 2, 2), 1.6, 3.6)


@pytest.mark.soak
def test_the_same_with_sixteen_nics():
    run((4, 4, 4), 2.4, 6.0)
