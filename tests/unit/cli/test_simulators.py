"""`heddle export ns3`, `heddle export chakra`, `heddle job import`."""

import json
import sys
from pathlib import Path

import pytest

from heddle.controller.config.foreign import Options, import_fabric
from heddle.controller.config.load import load_fabric, load_jobs
from heddle.controller.model.error import InputError
from heddle.controller.simulators.chakra import Node, written
from heddle.programs.console.simulators import export_chakra, export_ns3, import_traces

FABRIC = """version: 1
name: small
generate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 2, gbps: 100, uplink_gbps: 200}
failed: ["leaf1:1>spine1:1"]
"""
JOBS = """version: 1
jobs:
  - job_id: train
    ranks: {all: true}
    collectives:
      - {kind: ALL_TO_ALL, bytes: 4000, qps_per_flow: 2}
      - {kind: RING_ALL_REDUCE, bytes: 800, phase: 1}
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    (tmp_path / "fabric.yaml").write_text(FABRIC)
    (tmp_path / "jobs.yaml").write_text(JOBS)
    return tmp_path / "fabric.yaml", tmp_path / "jobs.yaml", tmp_path / "out"


def test_the_topology_of_ns3_is_the_fabric_without_what_failed(files, capsys) -> None:
    fabric, _, folder = files
    export_ns3(fabric, None, folder, delay_ns=500, out=sys.stdout)
    lines = (folder / "topology.txt").read_text().splitlines()
    assert lines[:2] == ["8 4 7", "4 5 6 7"]
    assert lines[2:4] == ["0 6 100000000000bps 500ns 0", "1 6 100000000000bps 500ns 0"]
    assert (folder / "names.txt").read_text().splitlines()[0] == f"0 {load_fabric(fabric).nics[0].id}"
    assert not (folder / "flow.txt").exists()
    again = import_fabric(folder / "topology.txt", Options(1, None, 1, None, {}), "hpcc").fabric
    assert (len(again.nics), len(again.cables), len(again.switches)) == (4, 3, 4)
    assert {cable.capacity_bps for cable in again.cables} == {200 * 10**9}


def test_flows_of_ns3_are_the_queue_pairs_of_the_first_phase(files, capsys) -> None:
    fabric, jobs, folder = files
    export_ns3(fabric, jobs, folder, delay_ns=1000, out=sys.stdout)
    head, *lines = (folder / "flow.txt").read_text().splitlines()
    flows = [line.split() for line in lines]
    between_hosts = {(a, b) for a in range(4) for b in range(4) if a != b}
    assert int(head) == len(flows) == 2 * len(between_hosts)
    assert {(int(flow[0]), int(flow[1])) for flow in flows} == between_hosts
    assert {(flow[2], flow[4]) for flow in flows} == {("3", "500")}
    assert sorted(flow[3] for flow in flows if flow[:2] == ["0", "1"]) == ["100", "101"]


def test_flows_of_ns3_avoid_a_plane_that_failures_have_taken(files, capsys) -> None:
    fabric, jobs, folder = files
    sizes = "generate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 1, gbps: 100, planes: 2}"
    fabric.write_text(f'{sizes}\nfailed: ["h1-n0/p1>p1-leaf1:3"]\n')
    export_ns3(fabric, jobs, folder, delay_ns=1000, out=sys.stdout)
    assert (folder / "names.txt").read_text().splitlines()[:2] == ["0 h1-n0/p0", "1 h1-n0/p1"]
    flows = [line.split() for line in (folder / "flow.txt").read_text().splitlines()[1:]]
    assert [(flow[0], flow[1], flow[4]) for flow in flows] == 2 * [("0", "2", "1000")] + 2 * [("2", "0", "1000")]


@pytest.mark.parametrize(
    ("failed", "why"),
    [('"h1-n0>leaf1:3"', "out of use is NIC h1-n0"), ('"leaf1:1>spine1:1", "leaf1:2>spine2:1"', "no live path joins")],
)
def test_a_flow_without_a_path_is_not_written_for_ns3(files, failed, why) -> None:
    fabric, jobs, folder = files
    fabric.write_text(f"generate: {{kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 1}}\nfailed: [{failed}]\n")
    with pytest.raises(InputError, match=why):
        export_ns3(fabric, jobs, folder, delay_ns=1000, out=sys.stdout)
    assert not folder.exists()


@pytest.mark.parametrize("text", [FABRIC, FABRIC.replace("}", ", planes: 2}").replace("leaf1:1>", "p0-leaf1:1>p0-")])
def test_traces_of_a_job_lead_back_to_it(files, capsys, text) -> None:
    fabric, jobs, folder = files
    fabric.write_text(text)
    out = sys.stdout
    export_chakra(fabric, jobs, folder, out)
    assert sorted(path.name for path in folder.iterdir()) == [f"train.{rank}.et" for rank in range(4)]
    capsys.readouterr()
    import_traces(fabric, folder / "train", "again", out, out)
    printed = capsys.readouterr().out
    (folder / "jobs.json").write_text(printed)
    [before], [after] = load_jobs(jobs, load_fabric(fabric)), load_jobs(folder / "jobs.json", load_fabric(fabric))
    assert (after.ranks, json.loads(printed)["jobs"][0]["job_id"]) == (before.ranks, "again")
    assert after.ranks == ("h1-n0", "h2-n0", "h3-n0", "h4-n0")
    assert [(one.kind, one.size_bytes) for one in after.collectives] == [
        (one.kind, one.size_bytes) for one in before.collectives
    ]


def test_a_trace_that_waits_for_itself_is_one_line_with_its_file(files, capsys) -> None:
    fabric, _, folder = files
    folder.mkdir()
    (folder / "t.0.et").write_bytes(written([Node(0, "a", 4, (1,)), Node(1, "b", 4, (0,))]))
    with pytest.raises(InputError, match=r"^t\.0\.et: node 0: waits for itself"):
        import_traces(fabric, folder / "t", "t", sys.stdout, sys.stderr)
    assert capsys.readouterr().out == ""


def test_more_ranks_than_nics_and_no_trace_at_all_are_named(files) -> None:
    fabric, _, folder = files
    folder.mkdir()
    out = sys.stdout
    with pytest.raises(InputError, match=r"t\.0\.et: is no file; traces are called PREFIX\.0\.et"):
        import_traces(fabric, folder / "t", "t", out, out)
    for rank in range(5):
        (folder / f"t.{rank}.et").write_bytes(written([]))
    with pytest.raises(InputError, match="5 ranks, the fabric has 4 compute NICs"):
        import_traces(fabric, folder / "t", "t", out, out)


def test_a_job_without_bytes_writes_no_file(files) -> None:
    fabric, jobs, folder = files
    jobs.write_text(
        JOBS.replace(
            "- {kind: ALL_TO_ALL, bytes: 4000, qps_per_flow: 2}",
            "- {kind: CUSTOM, flows: [{src_rank: 0, dst_rank: 2}]}",
        )
    )
    for command in (
        lambda out: export_ns3(fabric, jobs, folder, delay_ns=1, out=out),
        lambda out: export_chakra(fabric, jobs, folder, out),
    ):
        with pytest.raises(InputError, match="job train"):
            command(sys.stdout)
    assert not folder.exists()
