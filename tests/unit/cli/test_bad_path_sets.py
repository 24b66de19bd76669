"""What no path set can be made for: one clear line of `heddle check` and `heddle plan`."""

import json

import pytest

from tests.support.fabrics.bad_path_sets import ONE_PLANE, TOO_MANY, TWICE, document


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
