import json

from heddle.controller.config import load_fabric, parse_fabric
from tests.unit.config.foreign_files import BATFISH, HEDGEHOG, HPCC, HTSIM, LAB, LINGJUN, RAILS, lab


def test_an_imported_fabric_is_checked_and_planned(heddle, files, tmp_path):
    for name, text in (("topo.csv", LINGJUN), ("rails", RAILS), ("tree.topo", HTSIM), ("lab.clab.yml", LAB),
                       ("mix.txt", HPCC), ("layer1.json", BATFISH), ("wiring.yaml", HEDGEHOG)):  # fmt: skip
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


def test_a_role_on_the_command_line_decides(heddle, files, tmp_path):
    links = "lo:eth1-mid:eth1 hi:eth1-mid:eth2 lo:eth2-a:eth1 hi:eth2-b:eth1 mid:eth7-c:eth1"
    source, target = files("lab.clab.yml", lab({"ceos": "lo hi mid", "linux": "a b c"}, links)), tmp_path / "out.yaml"
    assert heddle("import", source, "-o", target)[0] == 2
    assert not target.exists()
    assert heddle("import", source, "-o", target, "--role", "mid=spine")[0] == 0
    assert {one.id: one.role for one in load_fabric(target).switches} == {"mid": "spine", "lo": "leaf", "hi": "leaf"}


def test_a_wrong_role_is_refused(heddle, files):
    source = files("lab.clab.yml", LAB)
    for wrong, why in (("leaf1=boss", "a role of host, leaf, spine, core"), ("leaf1", "must be NODE=ROLE")):
        status, _, err = heddle("import", source, "--role", wrong)
        assert (status, err.count("\n")) == (2, 1)
        assert why in err
    status, _, err = heddle("import", source, "--role", "leaf1=leaf", "--role", "leaf1=spine")
    assert (status, err) == (2, "heddle: --role leaf1=spine: leaf1 has the role leaf already\n")
    status, _, err = heddle("import", files("topo.csv", LINGJUN), "--role", "S1=leaf")
    assert (status, "lingjun names the tier of each switch" in err) == (2, True)


def test_the_first_lines_say_how_ports_are_numbered(heddle, files):
    _, out, _ = heddle("import", files("lab.clab.yml", LAB))
    assert "# Assumed: ports have the numbers of their interfaces: leaf1 e1-3 is leaf1:3." in out.splitlines()


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
