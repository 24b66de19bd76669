"""A fabric of several planes: NICs have ports in each, or hosts have NICs in each, and no cable joins them."""

import json
from dataclasses import replace

import pytest

from heddle.controller.config import parse_fabric
from heddle.controller.config.write import fabric_text
from heddle.controller.model.address import ip_text
from heddle.controller.model.connectivity import cut_off
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.programs.console.check import check_files
from tests.support.fabrics.planner_cases import job_of, plan_of, refusal_of
from tests.unit.config.foreign_files import imported

RING = {"kind": "RING_ALL_REDUCE", "bytes": 10**6}


def dual(planes: int) -> str:
    """Return a SimAI file: 4 GPUs on 4 servers, each on 2 leaves, whose spines are shared or of a plane each."""
    spines = {(0, 8), (0, 9), (1, 10), (1, 11)} if planes == 2 else {(p, s) for p in (0, 1) for s in range(8, 12)}
    links = [(gpu, 4 + 2 * (gpu // 2) + plane, "50Gbps") for gpu in range(4) for plane in (0, 1)]
    links += [(4 + 2 * row + plane, spine, "100Gbps") for row in (0, 1) for plane, spine in sorted(spines)]
    lines = [(12, 1, 0, 8, len(links), "H100"), range(4, 12), *((a, b, rate, "1us", 0) for a, b, rate in links)]
    return "".join(" ".join(map(str, line)) + "\n" for line in lines)


def separate(text: str) -> Fabric:
    """Return an imported fabric with a NIC for each port of its NICs."""
    fabric = imported(text).fabric
    return replace(
        fabric, nics=tuple(replace(nic, id=nic.id.replace("n0/p", "n"), of="", plane=0) for nic in fabric.nics)
    )


def test_the_reason_names_the_planes():
    fabric = separate(dual(2))
    found = cut_off(fabric, fabric.failed)
    assert [(one.nic, one.other_plane) for one in found] == [(f"h{host}-n1", True) for host in (1, 2, 3, 4)]
    assert found[0].why == (
        "no cable joins its leaf switch5 with the plane of other NICs of its host; a job must keep to one plane"
    )


def test_a_leaf_whose_uplinks_failed_is_cut_off_and_no_plane():
    fabric = separate(dual(1))
    down = [cable.up_link for cable in fabric.up_choices["switch5"]]
    text = "\n".join(fabric_text(fabric)) + f"\nfailed: {down}\n"
    failed = parse_fabric(text, "fabric")
    assert {(one.nic, one.other_plane) for one in cut_off(failed, failed.failed)} == {
        ("h1-n1", False),
        ("h2-n1", False),
    }


def test_heddle_check_has_one_line_for_all_nics_of_a_plane(tmp_path):
    from heddle.programs.console.check import run_check

    path = tmp_path / "fabric.yaml"
    path.write_text("\n".join(fabric_text(separate(dual(2)))))
    with open(tmp_path / "out", "w+", encoding="utf-8") as out:
        status = run_check([path], False, out)
        out.seek(0)
        _, planes = out.read().splitlines()
    assert status == 0
    assert planes.startswith(
        f"{path}: the fabric has several planes: 4 NICs are in another plane than the rest, the first"
    )


def test_a_job_over_planes_is_refused_as_what_it_is():
    fabric = separate(dual(2))
    why = refusal_of(fabric, job_of(fabric, RING))
    assert "add some" not in why
    assert why.endswith(
        "they are in two planes, in which one host has h1-n0 and h1-n1: give the job ranks of one plane"
    )


def test_a_job_within_one_plane_is_planned():
    fabric, ranks = separate(dual(2)), [f"h{host}-n0" for host in (1, 2, 3, 4)]
    [job] = plan_of(fabric, job_of(fabric, RING, ranks=ranks)).jobs
    assert [(flow.src_nic, flow.dst_nic) for flow in job.flows] == list(zip(ranks, [*ranks[1:], ranks[0]], strict=True))


def test_a_fabric_of_two_planes_is_sound(tmp_path):
    path = tmp_path / "fabric.yaml"
    path.write_text("\n".join(fabric_text(imported(dual(2)).fabric)))
    finding = check_files([path])[0]
    assert (finding.exit_status, finding.cut_off) == (0, ())
    assert (finding.counts["nics"], finding.counts["planes"]) == (4, 2)


def test_a_ring_over_all_gpus_of_two_planes_is_planned():
    fabric = imported(dual(2)).fabric
    plan = plan_of(fabric, job_of(fabric, RING, ranks={"all": True}))
    ends = [(flow.src_nic, flow.dst_nic) for flow in plan.jobs[0].flows]
    assert ends[:2] == [("h1-n0/p0", "h2-n0/p0"), ("h1-n0/p1", "h2-n0/p1")]


@pytest.mark.parametrize("planes", [1, 2])
def test_two_ports_of_one_gpu_are_one_rank(planes):
    fabric = imported(dual(planes)).fabric
    assert len({(nic.host, nic.gpus) for nic in fabric.nics}) == 4
    assert len(job_of(fabric, RING, ranks={"all": True}).ranks) == 4
    assert [port.plane for port in fabric.ports_of["h1-n0"]] == [0, 1]


def test_a_port_that_is_a_rank_keeps_the_job_to_its_plane():
    fabric = parse_fabric(text_of(PORTS), "fabric")
    plan = plan_of(fabric, job_of(fabric, RING, ranks=["h1-n0/p1", "h2-n0/p1"]))
    assert {flow.src_nic for flow in plan.jobs[0].flows} == {"h1-n0/p1", "h2-n0/p1"}


def test_ranks_without_a_plane_in_common_are_refused():
    fabric = parse_fabric(text_of(PORTS), "fabric")
    with pytest.raises(InputError, match="job job: h1-n0/p0 and h2-n0/p1 have no port in one plane; give the job"):
        plan_of(fabric, job_of(fabric, RING, ranks=["h1-n0/p0", "h2-n0/p1"]))


def port(name: str, **more) -> dict:
    return {"port": name, "gbps": 100, **more}


def text_of(ports: list, **nic) -> str:
    """Return a fabric file of two planes: host h1 with these ports, h2 on the second leaves."""
    shape = {"kind": "spine_leaf", "spines": 2, "leaves": 2, "hosts_per_leaf": 0, "planes": 2}
    listed = {"id": "h1-n0", "ip": "10.1.0.1", "ports": ports, **nic}
    other = {"id": "h2-n0", "ip": "10.2.0.1", "ports": [port("p0-leaf2:9"), port("p1-leaf2:9")]}
    hosts = [{"id": "h1", "nics": [listed]}, {"id": "h2", "nics": [other]}]
    return json.dumps({"version": 1, "generate": shape, "hosts": hosts})


PORTS = [port("p0-leaf1:9"), port("p1-leaf1:9")]


def test_each_port_of_a_nic_is_one_of_its_own_with_the_next_address():
    nics = parse_fabric(text_of(PORTS), "fabric").ports_of["h1-n0"]
    assert [(nic.id, nic.of, nic.plane, str(nic.port), ip_text(nic.ip)) for nic in nics] == [
        ("h1-n0/p0", "h1-n0", 0, "p0-leaf1:9", "10.1.0.1"),
        ("h1-n0/p1", "h1-n0", 1, "p1-leaf1:9", "10.1.0.2"),
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            text_of([port("p0-leaf1:9"), port("p0-leaf2:8")]),
            "hosts[0].nics[0].ports[1].port: p0-leaf2:8 is in plane 0, as p0-leaf1:9: a NIC has one port a plane; plug "
            "it into a switch of another, or give each port its `plane`",
        ),
        (
            text_of(PORTS, gbps=100),
            "hosts[0].nics[0].gbps: not beside `ports`, of which each has its own; leave it out",
        ),
        (text_of([]), "hosts[0].nics[0].ports: must not be empty"),
        (text_of([port("leaf1:9")]), "hosts[0].nics[0].ports[0].port: no switch named leaf1"),
        (text_of([port("p0-leaf1:9", plane=64)]), "hosts[0].nics[0].ports[0].plane: must be at most 63, is 64"),
        (
            text_of(PORTS, id="h2-n0"),
            "hosts[1].nics[0].id: the NIC id h2-n0 is given twice, to h2-n0 (hosts[0].nics[0]) and h2-n0 "
            "(hosts[1].nics[0]); choose another for one of them",
        ),
    ],
)
def test_wrong_ports_are_one_line_that_names_the_place(text, line):
    with pytest.raises(InputError) as caught:
        parse_fabric(text, "fabric")
    assert list(caught.value.problems) == [f"fabric: {line}"]


def test_a_plane_that_is_gone_leaves_its_part_to_the_others():
    data = json.loads(text_of(PORTS)) | {"failed": ["p1-spine1", "p1-spine2"]}
    fabric = parse_fabric(json.dumps(data), "fabric")
    plan = plan_of(fabric, job_of(fabric, RING, ranks={"all": True}))
    assert [(flow.src_nic, flow.rate_bps) for flow in plan.jobs[0].flows][:2] == [
        ("h1-n0/p0", 100 * 10**9),
        ("h1-n0/p1", 1),
    ]


def test_a_flow_without_anything_left_in_any_plane_is_refused():
    data = json.loads(text_of(PORTS)) | {"failed": ["h1-n0/p0>p0-leaf1:9", "p1-spine1", "p1-spine2"]}
    fabric = parse_fabric(json.dumps(data), "fabric")
    why = refusal_of(fabric, job_of(fabric, RING, ranks={"all": True}))
    assert why.startswith("2 flow(s) have no path, job/0/0-1/1, job/0/1-0/1: no live path joins p1-leaf1 and p1-leaf2")
