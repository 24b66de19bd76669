import io
import json
import re
from pathlib import Path

import pytest

from heddle.controller.config import load_fabric, load_jobs, parse_fabric, parse_jobs
from heddle.controller.config.fabric_file import FabricShape, GenerateShape, LinkShape, NicShape, SwitchShape
from heddle.controller.config.jobs_file import CollectiveShape, FlowShape, JobShape
from heddle.controller.config.policy_file import load_policy
from heddle.controller.config.text.field import Shape
from heddle.programs.console.check import run_check
from tests.unit.config.lab import GENERATE

EXAMPLES = Path(__file__).parents[3] / "examples"
JOBS = "jobs: [{job_id: a, ranks: [h1-n0, h3-n0], collectives: [{kind: ALL_TO_ALL, bytes: 1}]}]\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def writer(name, text):
        Path(name).write_text(text, encoding="utf-8")
        return Path(name)

    return writer


def check(*paths):
    out = io.StringIO()
    return run_check(paths, False, out), out.getvalue().splitlines()


def test_sound_files_are_counted(write):
    assert check(write("fabric.yaml", GENERATE), write("jobs.yaml", JOBS)) == (
        0,
        [
            "fabric.yaml: sound: 6 switches, 8 hosts, 8 NICs, 8 links between switches; source ports have room for"
            " 4 uplinks of a leaf (2 now), 2 parallel cables down from the top (1 now); bits 5 + 1, 8 spare",
            "jobs.yaml: sound: 1 job, 2 flow plans",
        ],
    )


def test_jobs_may_be_named_before_their_fabric(write):
    status, lines = check(write("jobs.yaml", JOBS), write("fabric.yaml", GENERATE))
    assert (status, lines[0]) == (0, "jobs.yaml: sound: 1 job, 2 flow plans")


def test_jobs_alone_are_checked_for_their_shape(write):
    assert check(write("jobs.yaml", JOBS)) == (
        0,
        ["jobs.yaml: sound: 1 job (ranks not checked: name a sound fabric file as well)"],
    )
    (status, lines) = check(write("jobs.yaml", JOBS.replace("bytes: 1", "bytes: 0")))
    assert (status, len(lines)) == (2, 1)
    assert lines[0].startswith("jobs.yaml: jobs[0].collectives[0].bytes: ")


def test_ranks_out_of_range_are_found_without_a_fabric_where_the_ranks_are_listed(write):
    gather = "collectives: [{kind: GATHER, bytes: 1, root: 5}]"
    assert check(write("listed.yaml", f"jobs: [{{job_id: a, ranks: [x], {gather}}}]"))[0] == 2
    assert check(write("all.yaml", f"jobs: [{{job_id: a, ranks: {{all: true}}, {gather}}}]"))[0] == 0


def test_jobs_are_checked_against_the_fabric_before_them(write):
    small = write("small.yaml", "generate: {kind: spine_leaf, spines: 1, leaves: 1, hosts_per_leaf: 2}\n")
    lab, jobs = write("lab.yaml", GENERATE), write("jobs.yaml", JOBS)
    assert check(small, lab, jobs)[0] == 0
    assert check(lab, small, jobs)[0] == 2


def test_malformed_files_end_in_2_with_a_line_each(write):
    status, lines = check(write("a.yaml", "nmae: x\n" + GENERATE), write("b.yaml", "x: 1\n"), Path("none.yaml"))
    assert status == 2
    assert lines == [
        "a.yaml: nmae: unknown key, did you mean name?",
        "b.yaml: neither a fabric file (generate, switches, links, hosts) nor a jobs file (jobs)",
        "none.yaml: cannot be read: No such file or directory",
    ]


def test_hosts_cut_off_end_in_3(write):
    status, lines = check(write("fabric.yaml", GENERATE + "failed: [leaf2]\n"))
    assert status == 3
    assert lines == [
        "fabric.yaml: sound: 6 switches, 8 hosts, 8 NICs, 8 links between switches, 1 failed link or switch;"
        " source ports have room for 4 uplinks of a leaf (2 now), 2 parallel cables down from the top (1 now);"
        " bits 5 + 1, 8 spare",
        "fabric.yaml: host h3 is cut off: NIC h3-n0 does not reach all others, its leaf leaf2 is out of use",
        "fabric.yaml: host h4 is cut off: NIC h4-n0 does not reach all others, its leaf leaf2 is out of use",
    ]


def test_a_port_cut_off_in_one_plane_says_that_its_host_is_not_in_others(write):
    text = GENERATE.replace("spines", "planes: 2, spines", 1) + 'failed: ["h1-n0/p1>p1-leaf1:3"]\n'
    status, lines = check(write("fabric.yaml", text))
    assert (status, len(lines)) == (3, 2)
    assert lines[1].startswith("fabric.yaml: host h1 is cut off in a plane: NIC h1-n0/p1 does not reach all others,")


def test_ranks_without_a_plane_in_common_are_a_problem_of_their_job(write):
    fabric = write("fabric.yaml", GENERATE.replace("spines", "planes: 2, spines", 1))
    ranks = "ranks: [h1-n0/p0, h3-n0/p1]"
    jobs = f"jobs: [{{job_id: a, {ranks}, collectives: [{{kind: ALL_TO_ALL, bytes: 1}}]}}]\n"
    status, lines = check(fabric, write("jobs.yaml", jobs))
    assert status == 2
    assert lines[1] == (
        "jobs.yaml: job a: h1-n0/p0 and h3-n0/p1 have no port in one plane; give the job ranks of one plane"
    )


def test_malformed_weighs_more_than_cut_off(write):
    cut, bad = write("cut.yaml", GENERATE + "failed: [leaf2]\n"), write("bad.yaml", "x: 1")
    assert check(cut, bad)[0] == 2


def test_many_hosts_cut_off_are_counted_after_twenty(write):
    text = "generate: {kind: spine_leaf, spines: 1, leaves: 2, hosts_per_leaf: 30}\nfailed: [leaf2]\n"
    assert check(write("fabric.yaml", text))[1][-1] == "fabric.yaml: (+10 more)"


def test_json_has_the_same_findings(write):
    out = io.StringIO()
    cut, bad = write("cut.yaml", GENERATE + "failed: [leaf2]\n"), write("bad.yaml", "x: 1")
    status = run_check([cut, bad], True, out)
    found = json.loads(out.getvalue())
    assert found["exit_status"] == status == 2
    assert found["files"][0]["cut_off"][0] == {"nic": "h3-n0", "host": "h3", "why": "its leaf leaf2 is out of use"}
    assert (found["files"][0]["sound"], found["files"][0]["switches"]) == (True, 6)
    assert found["files"][1]["problems"] == [
        "bad.yaml: neither a fabric file (generate, switches, links, hosts) nor a jobs file (jobs)"
    ]


def test_the_examples_are_sound_together():
    lab = load_fabric(EXAMPLES / "lab.yaml")
    assert (len(lab.switches), len(lab.nics), {nic.capacity_bps for nic in lab.nics}) == (6, 8, {20_000_000})
    assert len(load_jobs(EXAMPLES / "jobs.yaml", lab)) == 2
    assert check(EXAMPLES / "lab.yaml", EXAMPLES / "jobs.yaml")[0] == 0


def test_the_files_shown_in_the_documentation_are_sound(tmp_path):
    page = (EXAMPLES.parent / "docs" / "files.md").read_text(encoding="utf-8")
    shown_fabric, shown_jobs, shown_policy = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    fabric = parse_fabric(shown_fabric, "fabric.yaml")
    assert parse_jobs(shown_jobs, "jobs.yaml", fabric)
    (tmp_path / "policy.yaml").write_text(shown_policy)
    assert load_policy(tmp_path / "policy.yaml", fabric).tenants


def test_the_documentation_names_every_key():
    page = (EXAMPLES.parent / "docs" / "files.md").read_text(encoding="utf-8")
    shapes: list[type[Shape]] = [
        GenerateShape,
        SwitchShape,
        LinkShape,
        NicShape,
        FabricShape,
        JobShape,
        CollectiveShape,
        FlowShape,
    ]
    keys = {field.alias or name for shape in shapes for name, field in shape.model_fields.items()}
    assert {key for key in keys if f"`{key}`" not in page} == set()
