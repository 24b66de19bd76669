from collections import Counter

from heddle.controller.config.foreign import Options, import_fabric
from tests.unit.config.foreign_files import LINGJUN, imported, joined, published, refused, roles


def test_three_columns_become_three_tiers():
    found = imported(LINGJUN)
    assert found.format == "lingjun"
    assert Counter(roles(found).values()) == {"leaf": 4, "agg": 2, "core": 1}
    assert {("P1", "G1"), ("P1-S1", "P1"), ("P2-S1", "P2"), ("P2-S10", "P2")} <= joined(found)


def test_a_host_is_attached_to_the_access_switch_of_its_pod():
    nics = imported(LINGJUN).fabric.nic_by_id
    assert [nics[f"host-{x}-n0"].port.switch for x in "abcd"] == ["P1-S1", "P1-S2", "P2-S1", "P2-S10"]


def test_one_psw_may_be_drawn_as_several_aggs_in_planes():
    found = imported(LINGJUN, aggs_per_pod=2, cores=4)
    assert Counter(roles(found).values()) == {"leaf": 4, "agg": 4, "core": 4}
    assert {("P1-1", "G1-1"), ("P1-1", "G1-2"), ("P1-2", "G1-3"), ("P2-2", "G1-4")} <= joined(found)
    assert ("P1-1", "G1-3") not in joined(found)
    assert {("P1-S1", "P1-1"), ("P1-S1", "P1-2")} <= joined(found)


def test_a_host_in_two_rows_has_two_nics():
    found = imported(LINGJUN + "host-a,G1,P1,S2\n")
    assert [nic.port.switch for nic in found.fabric.nics if nic.host == "host-a"] == ["P1-S1", "P1-S2"]


def test_hashes_are_cut_to_a_unique_prefix():
    first, second = "a" * 64, "a" * 63 + "b"
    found = imported(f"ip,DSW,PSW,ASW\n{first},G,P,S\n{second},G,P,S\n")
    hosts = [nic.host for nic in found.fabric.nics]
    assert hosts[0] == "a" * 12
    assert len(set(hosts)) == 2


def test_an_empty_cell_is_named_by_its_line_and_column():
    assert refused(LINGJUN + "host-e,G1,,S1\n") == "source:6: PSW is empty"


def test_a_short_row_is_named():
    assert refused(LINGJUN + "host-e,G1\n").startswith("source:6: 2 cells")


def test_a_row_that_is_there_twice_is_named_with_the_first():
    line = refused(LINGJUN + "host-a,G1,P1,S1\n")
    assert line.startswith("source:6: ")
    assert "line 2" in line


def test_cores_that_cannot_be_dealt_to_the_aggs_are_refused():
    assert "multiple" in refused(LINGJUN, aggs_per_pod=2, cores=3)


def test_the_dataset_has_847_hosts_on_119_access_switches_in_3_pods():
    found = import_fabric(published("lingjun2023", "topo.csv"), Options())
    assert Counter(roles(found).values()) == {"leaf": 119, "agg": 3, "core": 1}
    assert len(found.fabric.nics) == 847
    assert len({nic.host for nic in found.fabric.nics}) == 847
    hosts = Counter(nic.port.switch.split("-")[0] for nic in found.fabric.nics)
    assert hosts == {"P8": 179, "P10": 362, "P12": 306}
    assert found.left_out == ()
