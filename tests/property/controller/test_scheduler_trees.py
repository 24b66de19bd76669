"""Any fabric with any list of nodes: every node once, one root, near nodes together, nothing that Slurm refuses."""

import networkx
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from heddle.controller.model.fabric import Cable, Fabric, Nic, PortRef, Role, Switch
from heddle.controller.schedulers.slurm_check import problems_of
from heddle.controller.schedulers.slurm_files import Format, slurm_text
from heddle.controller.schedulers.topograph import instances, node_labels
from heddle.controller.schedulers.tree import tree_of
from heddle.foundation.network import Network
from tests.oracles.slurm_topology import block_sizes, nodes_below, switches, yaml_switches
from tests.support.examples import examples

HOSTS = [*(f"h{number}" for number in range(1, 13)), "login", "gpu-a", "fabric"]
LEAVES = ["leaf1", "leaf2", "leaf3", "fabric", "unknown", "pod1", f"{'l' * 62}1", f"{'l' * 62}2", "leaf1-group", "a-"]
NODES = st.lists(st.sampled_from([*HOSTS, *(f"x{number:03}" for number in range(9))]), min_size=1, max_size=25)


@st.composite
def fabrics(draw):
    """Draw switches of all roles, cables between tiers and NICs of two networks, joined in any way."""
    leaves = draw(st.lists(st.sampled_from(LEAVES), min_size=1, max_size=6, unique=True))
    uppers = [f"agg{n}" for n in range(draw(st.integers(0, 3)))] + ["spine1"]
    roles = dict.fromkeys(leaves, Role.LEAF) | {name: Role.SPINE if name == "spine1" else Role.AGG for name in uppers}
    switches = tuple(Switch(id=name, role=role, datapath_id=n) for n, (name, role) in enumerate(roles.items(), 1))
    pairs = draw(st.lists(st.tuples(st.sampled_from(leaves), st.sampled_from(uppers)), max_size=12))
    cables = tuple(
        Cable(lower=PortRef(lower, n), upper=PortRef(upper, n), capacity_bps=1)
        for n, (lower, upper) in enumerate(pairs, 1)
    )
    ends = st.tuples(
        st.sampled_from(HOSTS), st.sampled_from(leaves), st.sampled_from([Network.COMPUTE, Network.STORAGE])
    )
    nics = tuple(
        Nic(id=f"{host}-n{n}", host=host, ip=n, mac=n, port=PortRef(leaf, 100 + n), capacity_bps=1, network=network)
        for n, (host, leaf, network) in enumerate(draw(st.lists(ends, min_size=1, max_size=20)))
    )
    return Fabric(name="drawn", switches=switches, cables=cables, nics=nics)


def groups_by_hand(fabric, *, with_aggs):
    """Return the component of leaves (with aggregation switches: the pod) of each compute host."""
    graph = networkx.Graph()
    for nic in fabric.nics:
        if nic.network is Network.COMPUTE:
            graph.add_edge(("host", nic.host), ("switch", nic.port.switch))
    if with_aggs:
        graph.add_edges_from(
            (("switch", cable.lower.switch), ("switch", cable.upper.switch))
            for cable in fabric.cables
            if cable.upper.switch.startswith("agg")
        )
    return {
        name: number
        for number, part in enumerate(networkx.connected_components(graph))
        for kind, name in part
        if kind == "host"
    }


@hypothesis_settings(max_examples=examples(80), deadline=None)
@given(fabrics(), NODES)
def test_every_node_is_in_the_file_once_below_one_root(fabric, nodes):
    tree = tree_of(fabric, nodes)
    found = switches(slurm_text(tree.root, Format.TREE))
    children = [child for _, below in found.values() for child in below]
    (root,) = set(found) - set(children)
    assert len(children) == len(set(children)) == len(found) - 1
    assert sorted(nodes_below(found, root)) == sorted(set(nodes))
    assert set(tree.unknown) == set(nodes) - {nic.host for nic in fabric.nics}
    for form in Format:
        assert problems_of(slurm_text(tree.root, form), form, dict.fromkeys(nodes)) == ()


@hypothesis_settings(max_examples=examples(80), deadline=None)
@given(fabrics(), NODES)
def test_nodes_are_together_exactly_where_leaves_or_aggregation_switches_join_them(fabric, nodes):
    layers = {each["id"]: each["network_layers"] for each in instances(tree_of(fabric, nodes).root)["instances"]}
    leaf_of, pod_of = (groups_by_hand(fabric, with_aggs=flag) for flag in (False, True))
    placed = [node for node in dict.fromkeys(nodes) if node in leaf_of]
    for one in placed:
        for other in placed:
            assert (layers[one][0] == layers[other][0]) == (leaf_of[one] == leaf_of[other])
            if one != other and leaf_of[one] != leaf_of[other]:
                assert (layers[one][1:-1] == layers[other][1:-1] != []) == (pod_of[one] == pod_of[other])


@hypothesis_settings(max_examples=examples(40), deadline=None)
@given(fabrics(), NODES)
def test_blocks_yaml_and_labels_say_the_same_as_the_tree(fabric, nodes):
    root = tree_of(fabric, nodes).root
    assert yaml_switches(slurm_text(root, Format.YAML)) == switches(slurm_text(root, Format.TREE))
    tree = {name: below for name, (below, _) in switches(slurm_text(root, Format.TREE)).items() if below}
    blocks = {name: below for name, (below, _) in switches(slurm_text(root, Format.BLOCK)).items()}
    labels = {each["metadata"]["name"]: each["metadata"]["labels"] for each in node_labels(root)["items"]}
    assert tree == blocks
    base, *others = block_sizes(slurm_text(root, Format.BLOCK))
    assert base == min(map(len, blocks.values()))
    assert others == [base * 2**level for level in range(1, len(others) + 1)]
    assert 2 ** len(others) <= len(blocks) < 2 ** (len(others) + 1)  # the largest aggregate is of blocks that exist
    for name, below in tree.items():
        for node in below:
            assert labels[node]["fabric.topograph.run/tier-0"] == name
    for value in {value for each in labels.values() for value in each.values()}:
        assert len(value) <= 63
        assert value[0].isalnum()
        assert value[-1].isalnum()


@hypothesis_settings(max_examples=examples(30), deadline=None)
@given(fabrics())
def test_without_a_list_the_nodes_are_the_hosts_of_the_compute_network(fabric):
    placed = [node for chain in tree_of(fabric).root.leaves() for node in chain[0].nodes]
    assert sorted(placed) == sorted({nic.host for nic in fabric.nics if nic.network is Network.COMPUTE})
