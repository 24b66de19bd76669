"""A fabric of several planes: hosts have NICs in each, and no cable joins them. Messages say so."""

import pytest

from heddle.controller.config import parse_fabric
from heddle.controller.config.write import fabric_text
from heddle.controller.model.connectivity import cut_off
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


def test_the_reason_names_the_planes():
    fabric = imported(dual(2)).fabric
    found = cut_off(fabric, fabric.failed)
    assert [(one.nic, one.other_plane) for one in found] == [(f"h{host}-n1", True) for host in (1, 2, 3, 4)]
    assert found[0].why == (
        "no cable joins its leaf switch5 with the plane of other NICs of its host; a job must keep to one plane"
    )


def test_a_leaf_whose_uplinks_failed_is_cut_off_and_no_plane():
    fabric = imported(dual(1)).fabric
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
    path.write_text("\n".join(fabric_text(imported(dual(2)).fabric)))
    with open(tmp_path / "out", "w+", encoding="utf-8") as out:
        status = run_check([path], False, out)
        out.seek(0)
        _, planes = out.read().splitlines()
    assert status == 3
    assert planes.startswith(
        f"{path}: the fabric has several planes: 4 NICs are in another plane than the rest, the first"
    )


def test_a_job_over_planes_is_refused_as_what_it_is():
    fabric = imported(dual(2)).fabric
    why = refusal_of(fabric, job_of(fabric, RING))
    assert "add some" not in why
    assert why.endswith(
        "they are in two planes, in which one host has h1-n0 and h1-n1: give the job ranks of one plane"
    )


def test_a_job_within_one_plane_is_planned():
    fabric = imported(dual(2)).fabric
    plan_of(fabric, job_of(fabric, RING, ranks=[f"h{host}-n0" for host in (1, 2, 3, 4)]))


@pytest.mark.xfail(
    strict=True, reason="planes: a host's NICs in several planes are no ranks that must reach each other"
)
def test_a_fabric_of_two_planes_is_sound(tmp_path):
    path = tmp_path / "fabric.yaml"
    path.write_text("\n".join(fabric_text(imported(dual(2)).fabric)))
    assert check_files([path])[0].exit_status == 0


@pytest.mark.xfail(strict=True, reason="planes: a ring over all GPUs runs in each plane")
def test_a_ring_over_all_gpus_of_two_planes_is_planned():
    fabric = imported(dual(2)).fabric
    assert plan_of(fabric, job_of(fabric, RING, ranks={"all": True})) is not None


@pytest.mark.xfail(strict=True, reason="planes: two ports of one GPU are one rank")
def test_two_ports_of_one_gpu_are_one_rank():
    fabric = imported(dual(1)).fabric
    assert len({(nic.host, nic.gpus) for nic in fabric.nics}) == 4
    assert len(job_of(fabric, RING, ranks={"all": True}).ranks) == 4
