import json

from heddle.controller.config import load_fabric, parse_fabric
from tests.unit.config.foreign_files import HTSIM, LAB, LINGJUN, RAILS


def test_an_imported_fabric_is_checked_and_planned(heddle, files, tmp_path):
    for name, text in (("topo.csv", LINGJUN), ("rails", RAILS), ("tree.topo", HTSIM), ("lab.clab.yml", LAB)):
        source, target = files(name, text), tmp_path / "out.yaml"
        status, out, err = heddle("import", source, "-o", target)
        assert (status, out) == (0, "")
        assert err.startswith(f"heddle: {source}: ")
        assert heddle("check", target)[0] == 0 if text is not LAB else True
        assert heddle("plan", target, tmp_path / "jobs.yaml")[0] == 0


def test_the_file_names_its_source_and_what_was_assumed(heddle, files):
    _, out, _ = heddle("import", files("topo.csv", LINGJUN), "--gbps", "25")
    assert out.startswith("# Imported by heddle import from topo.csv (lingjun): 4 hosts, 4 NICs, 7 switches")
    assert "# Assumed: every NIC 25 Gbit/s" in out
    assert parse_fabric(out, "out").nics[0].capacity_bps == 25 * 10**9


def test_what_is_left_out_is_counted_on_standard_error(heddle, files):
    source = files("lab.clab.yml", LAB)
    status, _, err = heddle("import", source)
    assert status == 0
    assert f"heddle: left out 1 x link within one tier; the first at {source}: topology.links[8]" in err.splitlines()


def test_json_is_a_valid_fabric_file(heddle, files, tmp_path):
    source = files("topo.csv", LINGJUN)
    status, out, _ = heddle("import", source, "--json")
    assert status == 0
    assert list(json.loads(out)) == ["version", "name", "switches", "links", "hosts"]
    heddle("import", source, "-o", tmp_path / "drawn.yaml")
    assert parse_fabric(out, "json") == load_fabric(tmp_path / "drawn.yaml")


def test_a_wrong_line_ends_with_2_and_leaves_no_file(heddle, files, tmp_path):
    source = files("topo.csv", LINGJUN + "host-e,G1\n")
    status, out, err = heddle("import", source, "-o", tmp_path / "none.yaml")
    assert (status, out) == (2, "")
    assert err.startswith(f"heddle: {source}:6: ")
    assert err.count("\n") == 1
    assert not (tmp_path / "none.yaml").exists()


def test_an_unknown_format_is_refused_with_the_known_ones(heddle, files):
    status, _, err = heddle("import", files("poem.txt", "roses are red\n"))
    assert status == 2
    assert "containerlab" in err
    assert "--format" in err


def test_a_fabric_file_needs_no_import(heddle, files, tmp_path):
    status, _, err = heddle("import", tmp_path / "fabric.yaml")
    assert (status, err) == (2, f"heddle: {tmp_path / 'fabric.yaml'}: a fabric file already; use it as it is\n")


def test_switches_are_multiplied_for_lingjun_only(heddle, files):
    status, _, err = heddle("import", files("rails", RAILS), "--cores", "4")
    assert status == 2
    assert "lingjun" in err


def test_invalid_options_are_refused(heddle, files):
    source = files("topo.csv", LINGJUN)
    for wrong in (("--gbps", "0"), ("--gbps", "nan"), ("--gbps", "inf"), ("--gbps", "-1"), ("--uplink-gbps", "1e30"),
                  ("--format", "visio"), ("--cores", "0")):  # fmt: skip
        status, out, err = heddle("import", source, *wrong)
        assert (status, out) == (2, "")
        assert wrong[0] in err
