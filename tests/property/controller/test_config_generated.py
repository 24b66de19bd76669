"""Generated fabrics of any size follow the contract's formulas."""

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.config import parse_fabric
from heddle.controller.model.address import ip_text
from heddle.foundation.address import mac_text
from heddle.testing.plans import contract_fabric
from tests.support.examples import examples

small = st.integers(1, 4)


def generated(kind, sizes):
    return parse_fabric(yaml.safe_dump({"version": 1, "generate": {"kind": kind, **sizes}}), "fabric.yaml")


def as_the_oracle_writes(fabric):
    switches = {switch.id: (switch.role.value, switch.datapath_id) for switch in fabric.switches}
    cables = {(str(cable.lower), str(cable.upper)) for cable in fabric.cables}
    nics = {
        nic.id: {
            "host": nic.host,
            "ip": ip_text(nic.ip),
            "mac": mac_text(nic.mac),
            "port": str(nic.port),
            "rail": nic.rail,
        }
        for nic in fabric.nics
    }
    return switches, cables, nics


@given(
    st.fixed_dictionaries(dict.fromkeys(("spines", "leaves", "nics_per_host", "links_per_spine"), small)),
    st.integers(0, 70),
)
@settings(max_examples=examples(60))
def test_a_spine_leaf_fabric_is_that_of_the_contract(sizes, hosts_per_leaf):
    sizes = {**sizes, "hosts_per_leaf": hosts_per_leaf}
    assert as_the_oracle_writes(generated("spine_leaf", sizes)) == contract_fabric.spine_leaf(**sizes)


@given(small, small, small, small, st.integers(0, 40))
@settings(max_examples=examples(60))
def test_a_rail_optimised_fabric_is_that_of_the_contract(spines, groups, rails, parallel, hosts_per_leaf):
    sizes = {
        "spines": spines,
        "leaves": groups * rails,
        "nics_per_host": rails,
        "links_per_spine": parallel,
        "hosts_per_leaf": hosts_per_leaf,
    }
    assert as_the_oracle_writes(generated("rail_optimised", sizes)) == contract_fabric.rail_optimised(**sizes)


@given(small, small, small, small, st.integers(0, 20), st.integers(1, 2))
@settings(max_examples=examples(60))
def test_a_clos3_fabric_is_that_of_the_contract(plane, aggs, leaves, pods, hosts_per_leaf, nics_per_host):
    sizes = {
        "spines": plane * aggs,
        "aggs_per_pod": aggs,
        "leaves": leaves,
        "pods": pods,
        "hosts_per_leaf": hosts_per_leaf,
        "nics_per_host": nics_per_host,
    }
    assert as_the_oracle_writes(generated("clos3", sizes)) == contract_fabric.clos3(**sizes)


@given(small, small, st.integers(1, 6), st.sampled_from(["spine_leaf", "rail_optimised"]))
@settings(max_examples=examples(30))
def test_a_generated_fabric_is_sound_when_listed(spines, leaves, hosts_per_leaf, kind):
    fabric = generated(kind, {"spines": spines, "leaves": leaves, "hosts_per_leaf": hosts_per_leaf})
    drawn = {
        "version": 1,
        "switches": [{"id": s.id, "role": s.role.value, "datapath_id": s.datapath_id} for s in fabric.switches],
        "links": [{"a": str(c.upper), "b": str(c.lower), "gbps": c.capacity_bps / 1e9} for c in fabric.cables],
        "hosts": [
            {
                "id": nic.host,
                "nics": [
                    {
                        "id": nic.id,
                        "ip": ip_text(nic.ip),
                        "mac": mac_text(nic.mac),
                        "port": str(nic.port),
                        "gbps": nic.capacity_bps / 1e9,
                        "rail": nic.rail,
                        "gpus": list(nic.gpus),
                    }
                ],
            }
            for nic in fabric.nics
        ],
    }
    again = parse_fabric(yaml.safe_dump(drawn), "fabric.yaml")
    assert (again.switches, again.cables, again.nics) == (fabric.switches, fabric.cables, fabric.nics)
