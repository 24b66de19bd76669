import pytest

from heddle.controller.model.error import InputError, NoAdmissiblePlanError
from heddle.mininet_topos.demo.options import build_options, chosen, seeds_of

SIZES = {"spines": None, "leaves": None, "hosts": None, "gbps": None}


def options(**changes):
    arguments = {
        "fabric_file": None,
        "sizes": SIZES,
        "workloads": "permutation,ring,all-to-all",
        "seeds": "1,2,3",
        "modes": "ecmp,e-ecmp,planned",
        "scenes": "none",
        "seconds": 2.5,
    }
    return build_options(**{**arguments, **changes})


def test_the_default_fabric_has_two_spines_four_leaves_and_eight_hosts():
    fabric = options().fabric
    assert len(fabric.switches) == 6
    assert len(fabric.nics) == 8
    assert {nic.capacity_bps for nic in fabric.nics} == {20_000_000}


def test_every_size_is_an_option():
    fabric = options(sizes={"spines": 3, "leaves": 2, "hosts": 6, "gbps": 0.01}).fabric
    assert len(fabric.switches) == 5
    assert {nic.capacity_bps for nic in fabric.nics} == {10_000_000}


def test_a_very_small_rate_is_written_so_that_the_file_can_be_read():
    assert options(sizes={**SIZES, "gbps": 0.00005}, workloads="ring").line_rate_bps == 50_000


def test_a_rate_too_small_to_measure_is_refused():
    with pytest.raises(InputError, match="too little to measure"):
        options(sizes={**SIZES, "gbps": 0.0003})


def test_hosts_that_do_not_divide_among_leaves_are_refused():
    with pytest.raises(InputError, match="--hosts 9: must be a multiple of --leaves 4"):
        options(sizes={**SIZES, "hosts": 9})


def test_a_fabric_file_together_with_a_size_is_refused(tmp_path):
    with pytest.raises(InputError, match="--spines is a size of the generated fabric"):
        options(fabric_file=tmp_path / "fabric.yaml", sizes={**SIZES, "spines": 2})


def test_a_fabric_file_with_a_mistake_is_refused_with_its_key(tmp_path):
    (tmp_path / "fabric.yaml").write_text("version: 1\ngenerate: {kind: spine_leaf, spins: 2}\n")
    with pytest.raises(InputError, match="spins"):
        options(fabric_file=tmp_path / "fabric.yaml")


def test_a_fabric_file_with_failed_parts_is_for_planned_runs_alone(tmp_path):
    text = "version: 1\ngenerate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 2, gbps: 0.02}\n"
    (tmp_path / "fabric.yaml").write_text(text + 'failed: ["leaf1:1>spine1:1"]\n')
    assert options(fabric_file=tmp_path / "fabric.yaml", modes="planned").modes == ("planned",)
    with pytest.raises(InputError, match="--modes planned"):
        options(fabric_file=tmp_path / "fabric.yaml")


def test_a_fabric_of_planes_is_refused_with_what_to_leave_out(tmp_path):
    path = tmp_path / "fabric.yaml"
    shape = "{kind: spine_leaf, spines: 1, leaves: 2, hosts_per_leaf: 1, gbps: 0.01, planes: 2}"
    path.write_text(f"version: 1\ngenerate: {shape}\n")
    with pytest.raises(InputError, match=r"^NIC h1-n0 has several ports: the demo has one plane, leave out `planes`"):
        options(fabric_file=path)


def test_a_host_that_is_cut_off_has_no_admissible_plan(tmp_path):
    text = "version: 1\ngenerate: {kind: spine_leaf, spines: 1, leaves: 3, hosts_per_leaf: 2, gbps: 0.02}\n"
    (tmp_path / "fabric.yaml").write_text(text + 'failed: ["leaf1:1>spine1:1"]\n')
    with pytest.raises(NoAdmissiblePlanError, match="is cut off"):
        options(fabric_file=tmp_path / "fabric.yaml", modes="planned")


def test_an_unknown_workload_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match="'rnig' is none of permutation, ring"):
        options(workloads="permutation,rnig")


def test_names_come_out_once_and_in_their_own_order():
    assert chosen("--modes", "planned, ecmp,ecmp", ("ecmp", "e-ecmp", "planned")) == ("ecmp", "planned")


@pytest.mark.parametrize("text", ["1,two", "1.5", "", ","])
def test_seeds_that_are_no_whole_numbers_are_refused(text):
    with pytest.raises(InputError, match="--seeds"):
        seeds_of(text)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), 1e6])
def test_a_duration_out_of_range_is_refused(seconds):
    with pytest.raises(InputError, match="--seconds"):
        options(seconds=seconds)


def test_a_rate_that_software_switches_cannot_carry_is_refused_with_one_that_they_can():
    with pytest.raises(InputError, match=r"at most (\S+) Gbit/s") as refused:
        options(sizes={**SIZES, "gbps": 100.0})
    fitting = float(str(refused.value).rpartition("at most ")[2].split()[0])
    assert options(sizes={**SIZES, "gbps": fitting}).line_rate_bps == int(fitting * 1e9)


def test_an_all_to_all_of_too_many_is_refused():
    sizes = {**SIZES, "leaves": 20, "hosts": 40, "gbps": 0.005}
    assert len(options(sizes=sizes, workloads="ring").workloads) == 1
    with pytest.raises(InputError, match="1,560 flows, more than"):
        options(sizes=sizes)


def test_scenes_are_chosen_by_name_in_their_own_order_or_not_at_all():
    assert options(scenes="storm,cut").scenes == ("cut", "storm")
    assert options(scenes="none").scenes == ()
    with pytest.raises(InputError, match="'flood' is none of cut, hog, arrival, storm"):
        options(scenes="flood")
