"""What no path set can be made for: one clear line of `heddle check` and `heddle plan`."""

import json

import pytest

SHAPE = {"kind": "spine_leaf", "spines": 2, "leaves": 2, "hosts_per_leaf": 2, "gbps": 100}
TOO_MANY = "3, but leaves of this fabric have at most 2 paths between them: ask for at most so many"
PORTS = [{"port": "p0-leaf1:9", "gbps": 100}, {"port": "p0-leaf2:9", "gbps": 100}]
TWICE = {"id": "h9", "nics": [{"id": "h9-n0", "ip": "10.9.0.1", "ports": PORTS}]}
ONE_PLANE = (
    "hosts[0].nics[0].ports[1].port: p0-leaf2:9 is in plane 0, as p0-leaf1:9: a NIC has one port a plane; "
    "plug it into a switch of another, or give each port its `plane`"
)


def document(**more):
    return {"version": 1, "name": "lab", "generate": {**SHAPE, "planes": 2}, **more}


def jobs(paths):
    ring = {"kind": "RING_ALL_REDUCE", "bytes": 1, "paths_per_flow": paths}
    return {"version": 1, "jobs": [{"job_id": "a", "ranks": {"all": True}, "collectives": [ring]}]}


@pytest.fixture
def files(tmp_path):
    def write(**contents):
        found = []
        for name, content in contents.items():
            (tmp_path / f"{name}.yaml").write_text(json.dumps(content))
            found.append(str(tmp_path / f"{name}.yaml"))
        return found

    return write


@pytest.mark.parametrize("command", ["check", "plan"])
def test_more_paths_than_there_are_are_one_line_of_check_and_plan(heddle, files, command):
    status, out, err = heddle(command, *files(fabric=document(), jobs=jobs(3)))
    assert status == 2
    lines = [line for line in (out + err).splitlines() if TOO_MANY in line]
    assert len(lines) == 1
    assert "collectives[0].paths_per_flow: " in lines[0]


@pytest.mark.parametrize("command", ["check", "plan"])
def test_two_ports_of_a_nic_in_one_plane_are_one_line_of_check_and_plan(heddle, files, command):
    status, out, err = heddle(command, *files(fabric=document(hosts=[TWICE]), jobs=jobs(2)))
    assert status == 2
    assert (out + err).count(ONE_PLANE) == 1
