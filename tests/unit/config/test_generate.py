import pytest

from heddle.controller.model.address import ip_text
from heddle.controller.model.fabric import Role
from heddle.foundation.address import mac_text
from tests.unit.config.lab import fabric, refused


def test_the_lab_has_the_ids_and_ports_of_the_contract():
    lab = fabric("generate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 1}")
    assert [(switch.id, switch.datapath_id) for switch in lab.switches] == [
        ("spine1", 1),
        ("spine2", 2),
        ("leaf1", 3),
        ("leaf2", 4),
    ]
    assert [cable.id for cable in lab.cables] == [
        "leaf1:1>spine1:1",
        "leaf1:2>spine2:1",
        "leaf2:1>spine1:2",
        "leaf2:2>spine2:2",
    ]
    assert [nic.up_link for nic in lab.nics] == ["h1-n0>leaf1:3", "h2-n0>leaf2:3"]
    assert [(ip_text(nic.ip), mac_text(nic.mac)) for nic in lab.nics] == [
        ("10.0.0.1", "02:00:00:00:00:01"),
        ("10.0.0.2", "02:00:00:00:00:02"),
    ]


def test_parallel_cables_lie_side_by_side_on_both_switches():
    lab = fabric("generate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 1, links_per_spine: 2}")
    assert [cable.id for cable in lab.cables if cable.lower.switch == "leaf2"] == [
        "leaf2:1>spine1:3",
        "leaf2:2>spine1:4",
        "leaf2:3>spine2:3",
        "leaf2:4>spine2:4",
    ]
    assert str(lab.nics[0].port) == "leaf1:5"


def test_the_nics_of_a_host_are_on_one_leaf_in_spine_leaf():
    lab = fabric("generate: {kind: spine_leaf, spines: 1, leaves: 2, hosts_per_leaf: 2, nics_per_host: 2}")
    assert [f"{nic.id} {nic.port}" for nic in lab.nics][:4] == [
        "h1-n0 leaf1:2",
        "h1-n1 leaf1:3",
        "h2-n0 leaf1:4",
        "h2-n1 leaf1:5",
    ]


def test_the_nics_of_a_host_are_on_a_leaf_each_in_a_rail_fabric():
    lab = fabric("generate: {kind: rail_optimised, spines: 1, leaves: 4, hosts_per_leaf: 2, nics_per_host: 2}")
    assert [f"{nic.id} {nic.port} {ip_text(nic.ip)} {mac_text(nic.mac)} {nic.rail}" for nic in lab.nics] == [
        "h1-n0 leaf1:2 10.0.0.1 02:00:00:00:00:01 0",
        "h1-n1 leaf2:2 10.0.0.3 02:00:00:00:00:02 1",
        "h2-n0 leaf1:3 10.0.0.2 02:00:00:00:00:03 0",
        "h2-n1 leaf2:3 10.0.0.4 02:00:00:00:00:04 1",
        "h3-n0 leaf3:2 10.0.0.5 02:00:00:00:00:05 0",
        "h3-n1 leaf4:2 10.0.0.7 02:00:00:00:00:06 1",
        "h4-n0 leaf3:3 10.0.0.6 02:00:00:00:00:07 0",
        "h4-n1 leaf4:3 10.0.0.8 02:00:00:00:00:08 1",
    ]


def test_three_tiers_have_the_ids_and_ports_of_the_contract():
    lab = fabric("generate: {kind: clos3, spines: 4, leaves: 2, pods: 2, aggs_per_pod: 2, hosts_per_leaf: 1}")
    assert [switch.id for switch in lab.switches][:5] == ["core1", "core2", "core3", "core4", "pod1-agg1"]
    assert [switch.datapath_id for switch in lab.switches] == list(range(1, 13))
    assert [switch.id for switch in lab.switches][-1] == "pod2-leaf2"
    assert "pod2-agg2:4>core4:2" in lab.cable_by_link
    assert "pod1-leaf2:1>pod1-agg1:2" in lab.cable_by_link
    assert [str(nic.port) for nic in lab.nics] == ["pod1-leaf1:3", "pod1-leaf2:3", "pod2-leaf1:3", "pod2-leaf2:3"]
    assert {switch.role for switch in lab.switches} == {Role.CORE, Role.AGG, Role.LEAF}


def test_addresses_run_through_255_as_plain_numbers():
    lab = fabric("generate: {kind: spine_leaf, spines: 1, leaves: 1, hosts_per_leaf: 600}")
    assert [ip_text(lab.nics[i].ip) for i in (254, 255, 599)] == ["10.0.0.255", "10.0.1.0", "10.0.2.88"]


def test_rail_leaves_are_a_multiple_of_the_rails():
    assert refused("generate: {kind: rail_optimised, spines: 1, leaves: 5, hosts_per_leaf: 2, nics_per_host: 2}") == [
        "fabric.yaml: generate.leaves: 5 must be a multiple of nics_per_host (2): a leaf per rail"
    ]


def test_cores_are_a_multiple_of_the_aggs_of_a_pod():
    text = "generate: {kind: clos3, spines: 5, leaves: 2, pods: 2, aggs_per_pod: 2, hosts_per_leaf: 1}"
    assert refused(text) == [
        "fabric.yaml: generate.spines: 5 cores must be a multiple of aggs_per_pod (2): each agg has its own cores"
    ]


def test_pods_are_refused_in_two_tiers():
    text = "generate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 1, pods: 2}"
    assert refused(text) == ["fabric.yaml: generate.pods: for clos3 only, not for spine_leaf; leave it out"]


THE_CONTRACTS_EXAMPLE = """
version: 1
name: lab
generate:
  {kind: spine_leaf, spines: 4, leaves: 8, pods: 1, aggs_per_pod: 4, hosts_per_leaf: 4, nics_per_host: 1,
   links_per_spine: 1, gbps: 100, uplink_gbps: 100}
switches:
  - {id: spine1, role: spine, datapath_id: 0x101, rule_budget: 4000}
links:
  - {a: "leaf1:1", b: "spine1:1", gbps: 100}
hosts:
  - id: gpu1
    nics:
      - {id: gpu1-n0, ip: IP, mac: "02:00:0a:00:00:01", port: "leaf1:33", gbps: 100, rail: 0, gpus: [0]}
failed: ["leaf1:2>spine2:1"]
"""


def test_the_contracts_example_is_sound_but_for_the_address_that_a_generated_nic_has():
    lab = fabric(THE_CONTRACTS_EXAMPLE.replace("IP", "10.9.0.1"))
    assert (len(lab.switches), len(lab.cables), len(lab.nics)) == (12, 32, 33)
    (line,) = refused(THE_CONTRACTS_EXAMPLE.replace("IP", "10.0.0.1"))
    assert "hosts[0].nics[0].ip: the address 10.0.0.1 is given twice" in line


def test_a_key_of_another_kind_with_no_effect_is_accepted():
    assert fabric("generate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 1, pods: 1}").nics
    text = "kind: clos3, spines: 2, leaves: 2, pods: 2, aggs_per_pod: 2, hosts_per_leaf: 1, links_per_spine: 1"
    assert fabric(f"generate: {{{text}}}").nics


def test_three_tiers_have_no_parallel_cables():
    text = "kind: clos3, spines: 2, leaves: 2, pods: 2, aggs_per_pod: 2, hosts_per_leaf: 1, links_per_spine: 2"
    assert refused(f"generate: {{{text}}}") == [
        "fabric.yaml: generate.links_per_spine: not in clos3, which has single cables; leave it out"
    ]


@pytest.mark.parametrize("key", ["pods", "aggs_per_pod"])
def test_three_tiers_require_pods_and_aggs(key):
    keys = {"kind": "clos3", "spines": 2, "leaves": 2, "pods": 2, "aggs_per_pod": 2, "hosts_per_leaf": 1}
    inner = ", ".join(f"{name}: {value}" for name, value in keys.items() if name != key)
    assert refused(f"generate: {{{inner}}}") == [f"fabric.yaml: generate.{key}: missing, clos3 requires it"]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ("spines: 1, leaves: 20000, hosts_per_leaf: 1", "20001 switches, at most 20000"),
        ("spines: 1, leaves: 1001, hosts_per_leaf: 1000", "1001000 NICs, at most 1000000"),
        ("spines: 1, leaves: 1, hosts_per_leaf: 65279", "65280 ports on one switch, at most 65279"),
        ("spines: 4000, leaves: 4000, hosts_per_leaf: 1", "16000000 switch-to-switch links, at most 4000000"),
        (f"spines: {10**30}, leaves: 8, hosts_per_leaf: 1", "over 10^29 switches, at most 20000"),
        (f"spines: 0x{'f' * 900}, leaves: 8, hosts_per_leaf: 1", "over 10^1083 switches, at most 20000"),
        (
            f"spines: 2, leaves: 2, hosts_per_leaf: 1, links_per_spine: {10**18}",
            "switch-to-switch links, at most 4000000",
        ),
    ],
)
def test_sizes_beyond_the_limits_are_refused_before_anything_is_generated(sizes, expected):
    (line,) = refused(f"generate: {{kind: spine_leaf, {sizes}}}")
    assert line.startswith("fabric.yaml: generate: makes ")
    assert expected in line


def test_the_sizes_of_three_tiers_are_counted_too():
    text = "kind: clos3, spines: 1000000, leaves: 1000000, pods: 1000000, aggs_per_pod: 1000000, hosts_per_leaf: 1"
    (line,) = refused(f"generate: {{{text}}}")
    assert "makes 2000001000000 switches, at most 20000" in line


def test_the_largest_number_of_switches_is_generated():
    assert len(fabric("generate: {kind: spine_leaf, spines: 1, leaves: 19999, hosts_per_leaf: 0}").switches) == 20_000
