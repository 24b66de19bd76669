"""What `heddle export ev --format htsim` writes, read as a simulator would: paths of the plan, flows of the matrix."""

import io
import json
import tempfile
from pathlib import Path

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.error import InputError
from heddle.programs.console.ev import export_ev
from heddle.testing.plans.contract_network import Network
from tests.support.examples import examples
from tests.support.fabrics.planning import clos3_shapes, fabric_file, plan_as_json, planned, spine_leaf_shapes

BYTES = 2_000_000


@st.composite
def cases(draw):
    """A fabric with single cables, of which one may have failed, a permutation of some hosts, and paths of a flow."""
    shape = draw(st.one_of(spine_leaf_shapes(), clos3_shapes()))
    shape.pop("links_per_spine", None)
    fabric = fabric_file(**shape)
    network = Network(fabric)
    most = shape["spines"]  # in clos3 a leaf reaches every core by one path
    ups = sorted(link for link in network.switch_links if network.rises(link))
    if most > 1 and draw(st.booleans()):
        fabric["failed"] = [draw(st.sampled_from(ups))]
    targets = draw(st.permutations(range(len(network.nics))))
    pairs = [{"src_rank": a, "dst_rank": b} for a, b in enumerate(targets) if a != b]
    assume(pairs)
    collective = {"kind": "SEND_RECV", "bytes": BYTES, "pairs": pairs, "paths_per_flow": draw(st.integers(1, most))}
    job = {"job_id": "a", "ranks": {"all": True}, "collectives": [collective]}
    return fabric, {"version": 1, "jobs": [job]}, pairs


def walked(network, shape, number, source, target):
    """Return the switches that a path number leads through, from the leaf of a NIC to that of another."""
    there, back = network.leaf(source), network.leaf(target)
    if there == back:
        return [there]
    if shape["kind"] == "spine_leaf":
        return [there, f"spine{number % 64 + 1}", back]
    (pod, back_pod), agg = (leaf.split("-")[0] for leaf in (there, back)), number % 64 + 1
    if pod == back_pod:
        return [there, f"{pod}-agg{agg}", back]
    core = (agg - 1) * (shape["spines"] // shape["aggs_per_pod"]) + number // 64 + 1
    return [there, f"{pod}-agg{agg}", f"core{core}", f"{back_pod}-agg{agg}", back]


def crossed(network, links):
    """Return the switches of a path, given by its links."""
    return [network.ends[link][1] for link in links[:-1]]


@given(case=cases())
@settings(max_examples=examples(25), deadline=None)
def test_path_numbers_and_matrix_are_those_of_the_planned_sets(case):
    fabric, jobs, pairs = case
    try:
        plan = planned(fabric, jobs)
    except (AssertionError, InputError):
        return  # a host is cut off, or one leaf has no path to another
    network, nics = Network(fabric), [nic.id for nic in parse_fabric(json.dumps(fabric), "fabric.yaml").nics]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "fabric.yaml").write_text(json.dumps(fabric))
        (folder / "jobs.yaml").write_text(json.dumps(jobs))
        flows = plan_as_json(plan, parse_fabric(json.dumps(fabric), "fabric.yaml"))["jobs"][0]["flows"]
        if not any("path_set" in flow for flow in flows):
            return  # refused: nothing is sprayed
        export_ev(folder / "fabric.yaml", folder / "jobs.yaml", "htsim", folder, io.StringIO())
        numbers = [[*map(int, line.split())] for line in (folder / "paths.txt").read_text().splitlines()]
        matrix = (folder / "flows.cm").read_text().splitlines()
    wanted = {(flow["src_nic"], flow["dst_nic"]): flow for flow in flows}
    assert len(numbers) == len(wanted)
    for source, target, count, *paths in numbers:
        flow = wanted[nics[source], nics[target]]
        listed = flow.get("path_set", {"paths": [flow], "order": [0]})
        order = [crossed(network, listed["paths"][entry]["links"]) for entry in listed["order"]]
        assert [walked(network, fabric["generate"], each, nics[source], nics[target]) for each in paths] == order
        assert count == len(order)
    assert matrix[:2] == [f"Nodes {len(nics)}", f"Connections {len(numbers)}"]
    ends = [(source, target) for source, target, *_ in numbers]
    assert sorted(ends) == sorted((pair["src_rank"], pair["dst_rank"]) for pair in pairs)
    lines = enumerate(ends, 1)
    assert matrix[2:] == [f"{a}->{b} id {number} start 0 size {BYTES}" for number, (a, b) in lines]
