"""`heddle export ev`: lists of entropy values, SRv6 addresses, and path numbers of htsim."""

import json
import sys
from ipaddress import IPv6Network
from pathlib import Path

import pytest

from heddle.controller.model.error import InputError
from heddle.programs.console.ev import export_ev

SMALL = "{kind: spine_leaf, spines: 4, leaves: 2, hosts_per_leaf: 4, gbps: 100}"
FAT_TREES = {
    128: "{kind: clos3, pods: 8, leaves: 4, aggs_per_pod: 4, spines: 16, hosts_per_leaf: 4, gbps: 100}",
    1024: "{kind: clos3, pods: 16, leaves: 8, aggs_per_pod: 8, spines: 64, hosts_per_leaf: 8, gbps: 100}",
}


def files(
    tmp_path: Path, shape: str, hosts: int, *, steering: str = "openflow", paths: int = 4, failed: str = "[]"
) -> tuple[Path, Path]:
    pairs = [{"src_rank": i, "dst_rank": (i + hosts // 2) % hosts} for i in range(hosts)]
    one = {"kind": "SEND_RECV", "bytes": 2_000_000, "pairs": pairs, "paths_per_flow": paths}
    jobs = {"version": 1, "jobs": [{"job_id": "train", "ranks": {"all": True}, "collectives": [one]}]}
    text = f"version: 1\nname: small\nsteering: {steering}\ngenerate: {shape}\nfailed: {failed}\n"
    (tmp_path / "fabric.yaml").write_text(text)
    (tmp_path / "jobs.yaml").write_text(json.dumps(jobs))
    return tmp_path / "fabric.yaml", tmp_path / "jobs.yaml"


@pytest.mark.parametrize("hosts", [128, 1024])
def test_htsim_gets_different_path_numbers_of_a_fat_tree_and_a_line_for_each_flow(hosts, tmp_path, capsys) -> None:
    export_ev(*files(tmp_path, FAT_TREES[hosts], hosts, paths=16), "htsim", tmp_path / "out", sys.stdout)
    width = {128: 4, 1024: 8}[hosts]
    head = (tmp_path / "out" / "flows.cm").read_text().splitlines()
    assert head[:3] == [f"Nodes {hosts}", f"Connections {hosts}", f"0->{hosts // 2} id 1 start 0 size 2000000"]
    lines = [list(map(int, line.split())) for line in (tmp_path / "out" / "paths.txt").read_text().splitlines()]
    assert [(src, dst) for src, dst, *_ in lines] == [(i, (i + hosts // 2) % hosts) for i in range(hosts)]
    for _, _, count, *paths in lines:
        assert (count, len(set(paths))) == (16, 16)
        assert all(path % 64 < width and path // 64 < width for path in paths)


def test_json_has_the_source_ports_of_each_flow_and_those_that_are_denied(tmp_path, capsys) -> None:
    export_ev(*files(tmp_path, SMALL, 8, failed='["leaf1:1>spine1:1"]'), "json", None, sys.stdout)
    nics = json.loads(capsys.readouterr().out)["nics"]
    assert len(nics) == 8
    for (profile,) in nics.values():
        states = [entry["state"] for entry in profile["entries"]]
        assert (states.count("ACTIVE"), states.count("DENIED")) == (3, 1)
        assert len({entry["value"] for entry in profile["entries"]}) == 4
        assert all(49152 <= entry["value"] <= 65535 for entry in profile["entries"])


def test_sids_are_an_address_for_each_entry(tmp_path, capsys) -> None:
    export_ev(*files(tmp_path, SMALL, 8, steering="srv6"), "sids", None, sys.stdout)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert len({tuple(line) for line in lines}) == len(lines) == 8 * 4
    assert {IPv6Network(address).prefixlen for _, _, address in lines} == {128}


@pytest.mark.parametrize(
    ("form", "folder", "change", "why"),
    [
        ("htsim", None, {}, "name their folder with -o"),
        ("json", "out", {}, "leave out -o"),
        ("sids", None, {}, "needs `steering: srv6`"),
        ("json", None, {"paths": 1}, "no flow is sprayed"),
        ("json", None, {"paths": 5}, "at most 4 paths"),
    ],
)
def test_what_cannot_be_written_is_refused_in_a_line(form, folder, change, why, tmp_path) -> None:
    paths = files(tmp_path, SMALL, 8, **change)
    with pytest.raises(InputError, match=why):
        export_ev(*paths, form, tmp_path / folder if folder else None, sys.stdout)
    assert not (tmp_path / "out").exists()


def test_parallel_cables_have_no_path_numbers(tmp_path) -> None:
    shape = SMALL.replace("spines: 4", "spines: 2, links_per_spine: 2")
    with pytest.raises(InputError, match="parallel cables"):
        export_ev(*files(tmp_path, shape, 8), "htsim", tmp_path / "out", sys.stdout)


DEAD = '["h5-n0/p1>p1-leaf2:5"]'
"""A port of the NIC that the first flow ends at."""


def test_json_denies_the_paths_of_a_part_in_a_plane_with_nothing_left(tmp_path, capsys) -> None:
    planes = SMALL.replace("spines", "planes: 2, spines", 1)
    export_ev(*files(tmp_path, planes, 8, failed=DEAD), "json", None, sys.stdout)
    parts = json.loads(capsys.readouterr().out)["nics"]["h1-n0"]
    assert [part["destination"] for part in parts] == ["h5-n0/p0", "h5-n0/p1"]
    assert [{entry["state"] for entry in part["entries"]} for part in parts] == [{"ACTIVE"}, {"DENIED"}]


def test_htsim_gets_no_part_in_a_plane_with_nothing_left(tmp_path, capsys) -> None:
    planes = SMALL.replace("spines", "planes: 2, spines", 1)
    export_ev(*files(tmp_path, planes, 8, failed=DEAD), "htsim", tmp_path / "out", sys.stdout)
    matrix = (tmp_path / "out" / "flows.cm").read_text().splitlines()
    assert matrix[1:3] == ["Connections 14", "0->8 id 1 start 0 size 2000000"]
    assert len((tmp_path / "out" / "paths.txt").read_text().splitlines()) == 14
