"""Packets that name their paths on Linux routers: data and ACKs take the planned cables, without rules or probes."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from heddle.controller.config import load_fabric
from heddle.controller.model.address import ipv6_text, parse_ip, parse_ipv6
from heddle.controller.model.fabric import Fabric, Nic, PortRef
from heddle.controller.model.plan import FlowPlan
from heddle.controller.model.srv6 import Sids
from heddle.controller.model.srv6_pings import Pings
from heddle.foundation.address import mac_text
from heddle.mininet_topos.measure.flow_run import FlowRequest, RunResult
from heddle.mininet_topos.nic.settings import NicSettings
from heddle.mininet_topos.routed.lab import RoutedLab
from heddle.mininet_topos.routed.static_sids import link_local
from heddle.mininet_topos.switches.fabric_net import ip_batch
from heddle.mininet_topos.wire.srv6 import OUTER_BYTES
from heddle.programs.console.cabling_check.command import Request, run_check_cabling
from heddle.programs.console.fabric_check.inputs import Source
from heddle.programs.console.sid_check import LeafCheck, check_leaf
from tests.e2e.lab.test_routed_fabric import SHAPES, SIZE_BYTES, TIMEOUT_S, planned, slowest, slowest_median
from tests.e2e.lab.test_routed_fabric import sent as sent_by_ports
from tests.support.packets.probed_ports import searched

pytestmark = pytest.mark.e2e

OTHERS = ("parallel cables", "3 tiers", "parallel cables, cable", "3 tiers, un", "3 tiers, last hop")
MARKED_BYTES = 40_000
HEADERS_BYTES = 14 + 20 + 8 + 12 + 4
"""Of a RoCE packet without an outer header: Ethernet, IPv4, UDP, BTH and ICRC. A NIC paces whole frames."""
RATE_PERCENT = 98
"""Of the planned rate: the outer header takes the rest of the cable."""
CUT_S = 2.0
MARKING = "table ip6 t { chain c { type filter hook postrouting priority 0; ip6 ecn set ce; }; }\n"
STYLES = {
    "parallel cables, cable": "{style: cable}",
    "3 tiers, un": "{style: un}",
    "3 tiers, last hop": "{last_hop: ua}",
}


@pytest.fixture
def fabric(request, tmp_path) -> Fabric:
    path, shape = tmp_path / "fabric.yaml", request.param.split(", ")[0]
    key = f"srv6: {STYLES[request.param]}\n" if request.param in STYLES else ""
    path.write_text(f"version: 1\nsteering: srv6\n{key}generate: {{{SHAPES[shape][0]}, gbps: 0.01}}\n")
    return load_fabric(path)


def requests_of(lab: RoutedLab, flows: Sequence[FlowPlan], size_bytes: int = SIZE_BYTES) -> list[FlowRequest]:
    """Return every flow, all from the same source port: it selects nothing."""
    sids = Sids(lab.fabric)
    return [
        FlowRequest(
            flow_id=flow.flow_id, src_nic=flow.src_nic, dst_nic=flow.dst_nic, size_bytes=size_bytes,
            rate_bps=flow.rate_bps * RATE_PERCENT // 100, udp_source_port=50_000, reverse_udp_source_port=50_001,
            sid=ipv6_text(sids.destination(flow.links, flow.dst_nic)),
            reverse_sid=ipv6_text(sids.destination(flow.reverse_links, flow.src_nic)),
        )
        for flow in flows
    ]  # fmt: skip


def sent(lab: RoutedLab, flows: Sequence[FlowPlan], size_bytes: int = SIZE_BYTES) -> RunResult:
    return lab.run_flows(requests_of(lab, flows, size_bytes), TIMEOUT_S)


def assert_on_planned_cables(lab: RoutedLab, flows: Sequence[FlowPlan], result: RunResult) -> None:
    for flow, done in zip(flows, result.flows, strict=True):
        data = result.capture.links_of(lab.stream_of(done.request))
        stream = lab.reverse_stream_of(done.request)
        acks = {link: counts[stream] for link, counts in result.capture.acks.items() if stream in counts}
        assert data == dict.fromkeys(flow.links, done.tx_packets)
        assert set(acks) == set(flow.reverse_links)
        assert len(set(acks.values())) == 1


@pytest.mark.parametrize(
    "fabric", ["2 tiers", *(pytest.param(name, marks=pytest.mark.soak) for name in OTHERS)], indirect=True
)
def test_every_packet_of_data_and_acks_takes_the_cables_that_it_names(fabric):
    flows = planned(fabric)
    with RoutedLab(fabric) as lab:
        result = sent(lab, flows)
        print(f"FIGURES goodput of the slowest flow {slowest(flows, result):.3f} of its planned rate")
        assert result.completed
        assert result.valid, result.integrity
        assert_on_planned_cables(lab, flows, result)


@pytest.mark.soak
@pytest.mark.alone  # it asks for the planned goodput
@pytest.mark.parametrize("fabric", ["2 tiers"], indirect=True)
def test_the_slowest_flow_has_its_planned_rate_beside_ports_by_chance_and_ports_by_probes(fabric):
    flows = planned(fabric)
    with RoutedLab(fabric) as lab:
        search, _ = searched(lab, flows, ways=4)
        by_port = [replace(flow, rate_bps=flow.rate_bps * RATE_PERCENT // 100) for flow in flows]
        results = {
            "names its path": sent(lab, flows),
            "port by probes": sent_by_ports(lab, by_port, search.ports),
            "port by chance": sent_by_ports(lab, by_port, {flow.flow_id: flow.udp_source_port for flow in flows}),
        }
    mtu_bytes = NicSettings.for_fabric(fabric).mtu_bytes
    frame_bytes = dict.fromkeys(results, mtu_bytes + HEADERS_BYTES)
    frame_bytes["names its path"] += OUTER_BYTES
    found = {name: slowest_median(by_port, result) * frame_bytes[name] / mtu_bytes for name, result in results.items()}
    print(f"FIGURES the slowest flow, as a part of the payload that its planned rate carries: {found}")
    assert found["names its path"] >= 0.98
    assert found["port by chance"] < 0.8


@pytest.mark.parametrize("fabric", ["2 tiers"], indirect=True)
def test_a_cable_that_was_down_carries_the_flows_that_name_it_again(fabric):
    cut = fabric.cables[0]
    flows, around = planned(fabric, share=0.5), planned(fabric, [cut.id], share=0.5)
    assert any(cut.up_link in flow.links for flow in flows)
    with RoutedLab(fabric) as lab:
        lab.net.set_cable(cut.id, up=False)
        without = sent(lab, around)
        lab.net.set_cable(cut.id, up=True)
        again = sent(lab, flows)
        assert without.completed
        assert_on_planned_cables(lab, around, without)
        assert again.completed
        assert_on_planned_cables(lab, flows, again)


@pytest.mark.parametrize("fabric", ["2 tiers"], indirect=True)
def test_errors_about_packets_that_no_port_takes_name_the_cable_that_is_cut(fabric):
    """Packets end at the switches before the cable, which send errors; no flow moves meanwhile."""
    flows, sids = planned(fabric, share=0.5), Sids(fabric)
    by_source = {fabric.nic_by_id[flow.src_nic].ip: flow for flow in flows}
    cut = next(fabric.cable_by_link[flow.links[2]] for flow in flows if len(flow.links) > 2)
    found: dict[str, str | None] = {}
    cut_ports: set[PortRef] = set()

    def cut_and_read(_seconds: float) -> None:
        if cut.lower not in cut_ports:
            cut_ports.add(cut.lower)
            lab.net.set_cable(cut.id, up=False)
        for message in lab.observed_flows().values():
            for pair in message.flows:
                if pair.path_errors:
                    flow, left = by_source[parse_ip(pair.src_ip)], parse_ipv6(pair.left_sid)
                    found[flow.flow_id] = sids.refused_at(flow.links, flow.dst_nic, left)

    with RoutedLab(fabric) as lab:
        assert not lab.run_flows(requests_of(lab, flows), CUT_S, cut_and_read).completed
    ends = (cut.up_link, cut.down_link)
    assert found == {flow.flow_id: link for flow in flows for link in ends if link in flow.links}


@pytest.mark.skipif(shutil.which("nft") is None, reason="nft (Debian package nftables) is missing")
@pytest.mark.parametrize("fabric", ["2 tiers"], indirect=True)
def test_a_mark_of_the_outer_header_reaches_the_congestion_control_of_the_sender(fabric):
    """A spine marks all that it forwards: it sees the outer header alone."""
    flows = planned(fabric, share=0.5)
    with RoutedLab(fabric, settings=replace(NicSettings.for_fabric(fabric), dcqcn=True)) as lab:
        words = [*lab.net.host("spine1").entrance, "nft", "-f", "-"]
        subprocess.run(words, input=MARKING, text=True, check=True)
        result = sent(lab, flows, size_bytes=MARKED_BYTES)
    marked = {flow.flow_id for flow in flows if any("spine1:" in link for link in flow.links)}
    assert 0 < len(marked) < len(flows)
    for done in result.flows:
        is_marked = done.request.flow_id in marked
        assert (done.np_ecn_marked_roce_packets == done.rx_packets) == is_marked
        assert (done.rp_cnp_handled > 0) == is_marked


@pytest.mark.parametrize("fabric", ["2 tiers"], indirect=True)
def test_pings_that_return_by_themselves_name_two_exchanged_cables(fabric, tmp_path):
    with RoutedLab(fabric) as lab:
        sound, unharmed = checked(lab), diagnosed(lab, tmp_path)
        exchange(lab, PortRef("leaf1", 1), PortRef("leaf1", 2))
        found, (status, diagnosis) = checked(lab), diagnosed(lab, tmp_path)
    assert (unharmed[0], unharmed[1]["causes"], unharmed[1]["unknown"]) == (0, [], [nic.up_link for nic in others(lab)])
    assert (status, [cause["text"] for cause in diagnosis["causes"]]) == (1, ["leaf1:1 and leaf1:2 are exchanged"])
    assert len(diagnosis["wrong"]) == 2
    assert [(leaf.tested, leaf.sent, leaf.findings) for leaf in sound] == [(4, 4, ())] * 4
    assert [finding.line for leaf in found for finding in leaf.findings] == [
        "leaf1:1: spine2:1 is at its far end, not spine1:1",
        "leaf1:2: spine1:1 is at its far end, not spine2:1",
    ]


def exchange(lab: RoutedLab, one: PortRef, other: PortRef) -> None:
    """Put the plugs of two ports of a switch into each other's place; neighbours are those that are really there."""
    net, entrance = lab.routers, lab.net.host(one.switch).entrance
    first, second = net.interface_of[one], net.interface_of[other]
    ip_batch([f"link set dev {name} down" for name in (first, second)], entrance)
    moves = ((first, "aside"), (second, first), ("aside", second))
    ip_batch([f"link set dev {was} name {name}" for was, name in moves], entrance)
    ip_batch([f"link set dev {name} up" for name in (first, second)], entrance)
    net.set_sids(one.switch)
    assert net.sids is not None
    planned, met = net.sids.peer_mac_of[one], net.sids.peer_mac_of[other]
    pairs = ((first, planned, met), (second, met, planned))
    lines = [
        f"neigh replace {link_local(ip)} lladdr {mac_text(mac)} dev {name} nud permanent" for name, ip, mac in pairs
    ]
    ip_batch(lines, entrance)


@pytest.mark.soak
@pytest.mark.parametrize("fabric", ["3 tiers", "3 tiers, un"], indirect=True)
def test_two_exchanged_cables_above_the_leaves_are_named(fabric, tmp_path, request):
    one, other = fabric.up_choices["pod1-agg1"][:2]
    with RoutedLab(fabric) as lab:
        assert diagnosed(lab, tmp_path)[1]["causes"] == []
        exchange(lab, one.lower, other.lower)
        status, diagnosis = diagnosed(lab, tmp_path)
    assert (status, set(diagnosis["wrong"])) == (1, {one.id, other.id})
    kinds = [cause["kind"] for cause in diagnosis["causes"]]
    assert kinds == (["lost", "lost"] if request.node.callspec.params["fabric"].endswith("un") else ["exchanged"])


def others(lab: RoutedLab) -> list[Nic]:
    """Return the NICs from which no ping is sent, by the names of their links."""
    first = {nics[0].id for nics in lab.fabric.nics_of_leaf.values()}
    return sorted((nic for nic in lab.fabric.nics if nic.id not in first), key=lambda nic: nic.up_link)


def diagnosed(lab: RoutedLab, place: Path) -> tuple[int, dict[str, Any]]:
    """Return the exit status and the JSON of `heddle check cabling --source pings` on the files of a lab."""
    (place / "nodes.json").write_text(json.dumps({nic.host: lab.net.host(nic.host).pid for nic in lab.fabric.nics}))
    out = StringIO()
    status = run_check_cabling(Request(fabric=place, source="pings"), as_json=True, out=out)
    return status, json.loads(out.getvalue())


def checked(lab: RoutedLab) -> list[LeafCheck]:
    """Check all cables from the first NIC of each leaf."""
    sids = Sids(lab.fabric)
    sources = [
        Source(nics[0], lab.net.device_of[nics[0].id], lab.net.host(nics[0].host).pid)
        for nics in lab.fabric.nics_of_leaf.values()
    ]
    return [check_leaf(Pings(lab.fabric, source.nic), sids, source, None) for source in sources]
