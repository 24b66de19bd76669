"""`heddle export sids --format iproute2`: the routes by which kernels of hosts send over planned paths."""

import json
import subprocess
from types import SimpleNamespace

import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.srv6 import Sids
from heddle.controller.sids.host_routes import HostRoutes

FABRIC = "version: 1\nsteering: srv6\ngenerate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 1}\n"
JOBS = """\
version: 1
jobs:
  - {job_id: a, ranks: [h1-n0, h2-n0], collectives: [{kind: CUSTOM, flows: [{src_rank: 0, dst_rank: 1}]}]}
"""
UP, DOWN = "leaf{}:{}>spine{}:{}", "spine{}:{}>leaf{}:{}"


@pytest.fixture
def exported(heddle, files, tmp_path):
    """Plan the jobs and write the routes; return the text of each NIC."""
    fabric = files("srv6.yaml", FABRIC)
    _, plan, _ = heddle("plan", fabric, files("one.yaml", JOBS), "--json")
    words = ("--format", "iproute2", "--plan", files("plan.json", plan), "--out", tmp_path / "hosts")
    status, text, error = heddle("export", "sids", fabric, *words)
    assert (status, text, error) == (0, f"{tmp_path / 'hosts'}: 2 NICs\n", "")
    (flow,) = json.loads(plan)["jobs"][0]["flows"]
    return {file.stem: file.read_text() for file in (tmp_path / "hosts").iterdir()}, flow


def test_a_sender_has_its_source_its_own_usid_and_a_route_to_the_receiver(exported):
    texts, flow = exported
    lines = texts["h1-n0"].splitlines()
    assert [line for line in lines if line.startswith(("dev=", "ip "))] == [
        "dev=$(ip -o -4 address show to 10.0.0.1 | awk '{print $2; exit}')",
        "ip sr tunsrc set fcbb:0:3:e003::",
        'ip -6 route replace fcbb:0:e003::/48 encap seg6local action End.DX4 nh4 10.0.0.1 dev "$dev" || \\',
        f'ip route replace 10.0.0.2/32 dev "$dev" src 10.0.0.1 encap seg6 mode encap.red segs {flow["sid"]}  # h2-n0',
    ]


@pytest.mark.parametrize(
    ("programs", "line"),
    [
        ({"ip": "exit 0"}, "h1-n0: no device here has 10.0.0.1: run this on its host, in its namespace"),
        (
            {"ip": "echo 2: eth0 inet", "cat": "echo 1"},
            "h1-n0: IPv6 is off at eth0: echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6",
        ),
        (
            {"ip": 'case "$*" in *seg6local*) exit 2;; esac; echo 2: eth0 inet', "cat": "echo 0"},
            "h1-n0: this kernel has no SRv6: use one with CONFIG_IPV6_SEG6_LWTUNNEL, Linux 4.14 or later",
        ),
    ],
    ids=["another host", "no IPv6", "kernel"],
)
def test_a_host_that_cannot_do_it_is_one_line_with_the_remedy(exported, tmp_path, programs, line):
    folder = tmp_path / "programs"
    folder.mkdir()
    for name, words in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{words}\n")
        (folder / name).chmod(0o755)
    environment = {"PATH": f"{folder}:/usr/bin:/bin"}
    done = subprocess.run(
        ["sh"], input=exported[0]["h1-n0"], env=environment, text=True, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, f"{line}\n")


def test_a_nic_with_ports_in_several_planes_has_a_file_for_each(heddle, files, tmp_path):
    fabric = files("planes.yaml", FABRIC.replace("spines: 2", "planes: 2, spines: 2"))
    _, plan, _ = heddle("plan", fabric, files("one.yaml", JOBS), "--json")
    words = ("--format", "iproute2", "--plan", files("plan.json", plan), "--out", tmp_path / "hosts")
    status, text, _ = heddle("export", "sids", fabric, *words)
    assert (status, text) == (0, f"{tmp_path / 'hosts'}: 4 ports of NICs\n")
    found = sorted(str(file.relative_to(tmp_path / "hosts")) for file in (tmp_path / "hosts").rglob("*.sh"))
    assert found == ["h1-n0/p0.sh", "h1-n0/p1.sh", "h2-n0/p0.sh", "h2-n0/p1.sh"]


def test_a_receiver_has_a_route_for_its_acks(exported):
    texts, flow = exported
    assert texts["h2-n0"].splitlines()[-1] == (
        'ip route replace 10.0.0.1/32 dev "$dev" src 10.0.0.2 '
        f"encap seg6 mode encap.red segs {flow['reverse_sid']}  # h1-n0"
    )


def over(source, target, spine, back):
    """Return a flow over one spine, with ACKs over another, of a fabric whose hosts are one a leaf."""
    own, far = source[1], target[1]
    return SimpleNamespace(
        src_nic=source,
        dst_nic=target,
        links=(UP.format(own, spine, spine, own), DOWN.format(spine, far, far, spine)),
        reverse_links=(UP.format(far, back, back, far), DOWN.format(back, own, own, back)),
    )


def routes_of(*flows, settings=""):
    fabric = parse_fabric(FABRIC + settings, "fabric.yaml")
    routes = HostRoutes(fabric, Sids(fabric), flows)
    return {nic: list(routes.lines(nic)) for nic in routes.nics}


def test_data_that_a_nic_sends_goes_before_acks_to_the_same_nic():
    found = routes_of(over("h1-n0", "h2-n0", 1, 2), over("h2-n0", "h1-n0", 1, 1))
    assert "segs fcbb:0:e001:e001:e003::" in found["h2-n0"][-1]
    assert "segs fcbb:0:e001:e002:e003::" in found["h1-n0"][-1]


def test_further_paths_of_a_pair_are_counted_where_they_differ():
    found = routes_of(over("h1-n0", "h2-n0", 1, 1), over("h1-n0", "h2-n0", 2, 1), over("h1-n0", "h2-n0", 2, 1))
    assert found["h1-n0"][-1].endswith("  # h2-n0; 1 more planned paths are not taken")
    assert found["h2-n0"][-1].endswith("  # h1-n0")


def test_with_a_ua_at_nics_the_usid_of_hosts_is_decapsulated():
    found = routes_of(over("h1-n0", "h2-n0", 1, 1), settings="srv6: {last_hop: ua}\n")
    assert any("fcbb:0:ffff::/48 encap seg6local action End.DX4 nh4 10.0.0.1" in line for line in found["h1-n0"])
    assert "segs fcbb:0:e001:e002:e003:ffff::" in found["h1-n0"][-1]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--format", "iproute2"), "--format iproute2 needs --plan PLAN, a plan that `heddle plan FABRIC JOBS --json`"),
        (("--plan", "plan.json"), "--plan and --out need --format iproute2"),
        (("--out", "hosts"), "--plan and --out need --format iproute2"),
        (("--format", "iproute2", "--plan", "OTHER"), "the plan is for another fabric"),
    ],
    ids=["no plan", "plan of JSON", "folder of JSON", "another fabric"],
)
def test_options_that_do_not_fit_are_refused_in_one_line(heddle, files, tmp_path, options, line):
    _, plan, _ = heddle("plan", files("srv6.yaml", FABRIC), files("one.yaml", JOBS), "--json")
    other = str(files("plan.json", plan))
    larger = files("larger.yaml", FABRIC.replace("hosts_per_leaf: 1", "hosts_per_leaf: 2"))
    status, text, error = heddle("export", "sids", larger, *(other if word == "OTHER" else word for word in options))
    assert (status, text, error.count("\n")) == (2, "", 1)
    assert line in error
