"""Fabric files with `steering: srv6` that cannot work: commands refuse them in one line with the remedy."""

import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.next_hops import next_hops
from heddle.controller.model.srv6 import MAX_USIDS, Sids
from heddle.controller.planner.ground.clos import MAX_HOPS

FABRIC = (
    "version: 1\nsteering: srv6\n{}"
    "switches: [{{id: leaf1, role: leaf, datapath_id: {}}}, {{id: spine1, role: spine, datapath_id: 2}}]\n"
    "links: [{{a: 'leaf1:{}', b: 'spine1:1', gbps: 1}}]\n"
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            FABRIC.format("", 57_344, 1),
            "switches: leaf1 has datapath_id 57344, uSIDs name switches 1 to 57343: give it a lower one",
        ),
        (
            FABRIC.format("", 1, 8_191),
            "switches: port leaf1:8191 has no uSID: those are for port numbers up to 8,190",
        ),
        (
            FABRIC.format('srv6: {block: "100::/32"}\n', 1, 1),
            "srv6.block: 100::/32 overlaps 100::/32, packets to discard (RFC 6666): use another, such as fcbb::/32",
        ),
        (
            FABRIC.format('srv6: {block: "2001::/32"}\n', 1, 1),
            "srv6.block: 2001::/32 overlaps 2001::/32, Teredo: use another, such as fcbb::/32",
        ),
        (
            FABRIC.format('srv6: {block: "ff02::/32"}\n', 1, 1),
            "srv6.block: ff02::/32 overlaps ff00::/8, multicast: use another, such as fcbb::/32",
        ),
        (
            FABRIC.format('srv6: {block: "fcbb::/24"}\n', 1, 1),
            "srv6.block: it is a /24: uSIDs need a /32",
        ),
    ],
    ids=["datapath id", "port", "discarded", "teredo", "multicast", "length"],
)
@pytest.mark.parametrize("command", ["check", "plan", "run"])
def test_it_is_refused_in_one_line_with_the_remedy(heddle, files, tmp_path, command, text, line):
    path = files("srv6.yaml", text)
    words = {"check": (path,), "plan": (path, tmp_path / "jobs.yaml"), "run": (path,)}[command]
    status, out, error = heddle(command, *words)
    assert status == 2
    assert (out + error).removeprefix("heddle: ") == f"{path}: {line}\n"


@pytest.mark.parametrize("style", ["ua", "un", "cable"])
def test_no_path_of_a_fabric_has_more_usids_than_an_address(style):
    """So none is refused for it: the longest path goes up and down three tiers, and a host's uSID follows."""
    shape = "generate: {kind: clos3, spines: 1, leaves: 1, pods: 2, aggs_per_pod: 1, hosts_per_leaf: 1}"
    settings = f"srv6: {{style: {style}, last_hop: ua}}"
    fabric = parse_fabric(f"version: 1\nsteering: srv6\n{settings}\n{shape}\n", "fabric.yaml")
    source, target = fabric.nics
    switch, links = source.port.switch, [source.up_link]
    while switch != target.port.switch:
        hop = next_hops(fabric, switch, target.port.switch)[0]
        links.append(hop.link)
        switch = hop.far.switch
    assert len(links) - 1 == MAX_HOPS
    assert len(Sids(fabric).usids((*links, target.down_link), target.id)) == MAX_USIDS
