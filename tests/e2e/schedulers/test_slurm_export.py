"""A real slurmctld loads exactly what is exported, and no broken file ever reaches it."""

import random

import pytest

from heddle.controller.model.error import HeddleError, InputError
from heddle.controller.schedulers.host_list import host_list, hosts_of
from heddle.controller.schedulers.slurm_check import problems_of
from heddle.controller.schedulers.slurm_files import Format
from heddle.controller.schedulers.slurm_reading import loaded_switches
from heddle.programs.console.slurm import export as export_module
from heddle.programs.console.slurm.commands import run_slurm
from heddle.programs.console.slurm.export import export_slurm
from heddle.programs.console.slurm.topology_file import replace_file
from tests.oracles.slurm_topology import nodes_below, switches
from tests.support.examples import examples
from tests.support.fabrics.planner_cases import fabric_of
from tests.support.schedulers.broken_topologies import BROKEN, FATAL, NODES, SOUND
from tests.support.schedulers.slurm_cluster import MISSING, slurm_cluster

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(MISSING is not None, reason=f"{MISSING} of Debian's Slurm is not installed (scripts/setup all)"),
]
CLOS = {"kind": "clos3", "spines": 4, "pods": 2, "aggs_per_pod": 2, "leaves": 2, "hosts_per_leaf": 3}


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    with slurm_cluster(tmp_path, SOUND) as found:
        for name in ("SLURM_CONF", "PATH"):
            monkeypatch.setenv(name, found.environment[name])
        yield found


def shown(cluster):
    return loaded_switches(cluster.run("scontrol", "show", "topology"))


def test_slurm_shows_exactly_the_exported_tree_and_loads_it_once(cluster, capsys):
    export_slurm(fabric_of(**CLOS), Format.TREE, None, cluster.topology, reconfigure=True)
    assert capsys.readouterr().out.endswith("8 switches, 16 nodes: written, loaded by Slurm\n")
    written = switches(cluster.topology.read_text())
    assert sorted(nodes_below(written, "fabric")) == sorted(cluster.nodes)
    assert written["unknown"][0] == ["h13", "h14", "h15", "h16"]
    assert shown(cluster).keys() == written.keys()
    for name, switch in shown(cluster).items():
        assert (switch.nodes, switch.children) == (set(nodes_below(written, name)), set(written[name][1]))
    export_slurm(fabric_of(**CLOS), Format.TREE, None, cluster.topology, reconfigure=True)
    assert capsys.readouterr().out.endswith("8 switches, 16 nodes: not changed\n")
    log = (cluster.folder / "log/slurmctld.log").read_text()
    assert log.count("Processing Reconfiguration Request") == 1
    assert "lack access" not in log
    assert "no switch can reach" not in log.lower()


def test_nodes_that_slurm_does_not_know_are_no_difference(cluster, capsys, tmp_path):
    (tmp_path / "nodes").write_text("z[1-3]")
    for done in ("written, loaded by Slurm", "not changed"):
        export_slurm(fabric_of(**CLOS), Format.TREE, str(tmp_path / "nodes"), cluster.topology, reconfigure=True)
        assert capsys.readouterr().out.endswith(f"8 switches, 19 nodes: {done}\n")


def test_of_thirty_broken_files_none_ends_slurm_or_replaces_the_file(cluster):
    assert len(BROKEN) >= 30
    before = shown(cluster)
    for what, text in BROKEN.items():
        with pytest.raises(InputError):
            replace_file(cluster.topology, text, Format.TREE, NODES)
        assert cluster.controller.poll() is None, what
        assert cluster.topology.read_bytes() == SOUND.encode(), what
    assert shown(cluster) == before


@pytest.mark.parametrize("form", [Format.BLOCK, Format.YAML])
def test_a_format_that_slurm_does_not_read_leaves_slurm_and_the_file_as_they_are(cluster, form):
    before = shown(cluster)
    with pytest.raises(
        HeddleError, match=r"not written: (Slurm's TopologyPlugin is|topology\.yaml needs Slurm 25\.05)"
    ):
        export_slurm(fabric_of(**CLOS), form, None, cluster.topology, reconfigure=True)
    assert cluster.topology.read_bytes() == SOUND.encode()
    assert cluster.controller.poll() is None
    assert shown(cluster) == before


def test_where_slurm_does_not_take_a_file_that_of_before_is_in_its_place(cluster, monkeypatch):
    cluster.stop_controller()
    monkeypatch.setattr(export_module, "LOADED_WITHIN_S", 0.0)
    # `sinfo` and `show config` come before anything is written; these texts stand for replies of a moment before.
    earlier = {"sinfo": "h[1-16]", "scontrol show config": "TopologyPlugin = topology/tree"}
    monkeypatch.setattr(
        export_module,
        "run_slurm",
        lambda *command: earlier.get(command[0]) or earlier.get(" ".join(command)) or run_slurm(*command),
    )
    with pytest.raises(HeddleError, match="is as it was before"):
        export_slurm(fabric_of(**CLOS), Format.TREE, None, cluster.topology, reconfigure=True)
    assert cluster.topology.read_bytes() == SOUND.encode()
    cluster.start_controller()
    assert shown(cluster)["leaf4"].nodes == {"h13", "h14", "h15", "h16"}


@pytest.mark.soak
def test_four_thousand_hosts_are_loaded(tmp_path, monkeypatch):
    fabric = fabric_of(kind="clos3", spines=8, pods=16, aggs_per_pod=2, leaves=16, hosts_per_leaf=16)
    with slurm_cluster(tmp_path, "SwitchName=all Nodes=h[1-4096]\n", nodes=4096) as cluster:
        for name in ("SLURM_CONF", "PATH"):
            monkeypatch.setenv(name, cluster.environment[name])
        export_slurm(fabric, Format.TREE, None, cluster.topology, reconfigure=True)
        found = shown(cluster)
    assert len(found) == 1 + 16 + 256
    assert len(found["fabric"].nodes) == 4096


@pytest.mark.soak
@pytest.mark.parametrize("what", FATAL)
def test_the_files_that_are_called_fatal_end_slurm(cluster, what):
    cluster.topology.write_text(FATAL[what])
    cluster.run("scontrol", "reconfigure", check=False, timeout_s=120)
    assert cluster.controller.wait(30) != 0


@pytest.mark.soak
def test_no_changed_file_that_passes_the_check_ends_slurm(cluster):
    draw = random.Random(7)
    tried = {SOUND}
    while len(tried) < examples(100):
        text = _changed(draw.choice(sorted(tried)), draw)
        if problems_of(text, Format.TREE):
            continue
        tried.add(text)
        cluster.topology.write_text(text)
        cluster.run("scontrol", "reconfigure")
        assert cluster.controller.poll() is None, text
        assert cluster.replies(), text


def _changed(text, draw):
    """Return the text with a few characters, words or lines exchanged, doubled or taken out."""
    for _ in range(draw.randint(1, 3)):
        pieces = draw.choice([list, str.splitlines, str.split])(text)
        glue = "" if pieces == list(text) else "\n"
        one, other = draw.randrange(len(pieces)), draw.randrange(len(pieces))
        change = draw.choice(["exchange", "double", "take"])
        if change == "exchange":
            pieces[one], pieces[other] = pieces[other], pieces[one]
        elif change == "double":
            pieces.insert(other, pieces[one])
        elif len(pieces) > 1:
            del pieces[one]
        text = glue.join(pieces)
    return text


@pytest.mark.soak
def test_lists_of_hosts_are_expanded_as_slurm_expands_them(cluster):
    draw = random.Random(3)
    for _ in range(examples(100)):
        numbers = [draw.randrange(10 ** draw.randint(1, 6)) for _ in range(draw.randint(1, 40))]
        hosts = [f"{draw.choice(['h', 'gpu-', 'a.b', 'r1n'])}{each:0{draw.randint(1, 4)}}" for each in numbers]
        text = host_list(hosts)
        assert cluster.run("scontrol", "show", "hostnames", text).split() == hosts_of(text, "X")
        assert set(hosts_of(text, "X")) == set(hosts)
