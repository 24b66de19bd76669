"""`heddle export slurm` and `topograph`: what is written, what is refused, and when Slurm is made to load it."""

import io
import json
import os
import stat

import pytest

from heddle.controller.model.error import InputError, PrerequisiteError, UnavailableError
from heddle.controller.schedulers.slurm_files import Format
from heddle.programs.console.slurm import commands
from heddle.programs.console.slurm import export as export_module
from heddle.programs.console.slurm.export import put_topology
from heddle.programs.console.slurm.topology_file import replace_file
from tests.support.controllers.served_controller import served
from tests.support.fabrics.planner_cases import fabric_of
from tests.support.schedulers.broken_topologies import BROKEN, NODES, SOUND

SCONTROL = """\
#!/bin/sh
cd "$(dirname "$0")"
echo "$*" >> calls
case "$1 $2" in
  "show topology") cat shown;;
  "show config") cat config;;
  "reconfigure ")
    [ ! -e dead ] || { echo "slurm_reconfigure error: dead" >&2; exit 1; }
    [ ! -e next ] || mv next shown;;
esac
"""
SHOWN = """\
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=h[1-2]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=h[3-4]
SwitchName=leaf3 Level=0 LinkSpeed=1 Nodes=h[5-6]
SwitchName=leaf4 Level=0 LinkSpeed=1 Nodes=h[7-8]
SwitchName=fabric Level=1 LinkSpeed=1 Nodes=h[1-8] Switches=leaf[1-4]
"""


CONFIG = """\
Configuration data as of 2026-11-29T22:00:00
SLURM_VERSION           = 22.05.8
TopologyParam           = (null)
TopologyPlugin          = topology/tree
"""


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Commands of a Slurm with the nodes h1 to h8 in two partitions, which has loaded no topology."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "shown").write_text("")
    (folder / "config").write_text(CONFIG)
    (folder / "next").write_text(SHOWN)
    (folder / "nodes").write_text("".join(f"h{n}\n" for n in [*range(1, 9), *range(1, 9)]))
    for name, text in {"scontrol": SCONTROL, "sinfo": '#!/bin/sh\ncat "$(dirname "$0")/nodes"\n'}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(export_module, "LOADED_WITHIN_S", 0.0)
    return folder


def reconfigured(slurm):
    return (slurm / "calls").read_text().splitlines().count("reconfigure")


def test_the_tree_of_a_fabric_file_is_printed(heddle, files, tmp_path):
    status, text, said = heddle("export", "slurm", tmp_path / "fabric.yaml")
    assert (status, said) == (0, "")
    assert text.splitlines()[1:] == [
        "SwitchName=leaf1 Nodes=h[1-2]",
        "SwitchName=leaf2 Nodes=h[3-4]",
        "SwitchName=leaf3 Nodes=h[5-6]",
        "SwitchName=leaf4 Nodes=h[7-8]",
        "SwitchName=fabric Switches=leaf[1-4]",
    ]


def test_hosts_with_rails_are_below_one_switch_and_pods_below_switches_of_their_own(heddle, files):
    shape = "{kind: clos3, spines: 4, pods: 2, aggs_per_pod: 2, leaves: 2, hosts_per_leaf: 2, gbps: 400}"
    _, text, _ = heddle("export", "slurm", files("clos.yaml", f"version: 1\ngenerate: {shape}\n"))
    assert "SwitchName=pod1 Switches=pod1-leaf[1-2]\n" in text
    assert text.endswith("SwitchName=fabric Switches=pod[1-2]\n")
    shape = "{kind: rail_optimised, spines: 2, leaves: 4, hosts_per_leaf: 4, nics_per_host: 2, gbps: 400}"
    _, text, _ = heddle("export", "slurm", files("rails.yaml", f"version: 1\ngenerate: {shape}\n"))
    assert text.count("-group Nodes=") == 2


def test_the_running_controller_s_fabric_makes_the_same_file_as_its_fabric_file(heddle, files):
    shape = "{kind: spine_leaf, spines: 2, leaves: 4, hosts_per_leaf: 2}"
    _, wanted, _ = heddle("export", "slurm", files("same.yaml", f"version: 1\nname: lab\ngenerate: {shape}\n"))
    with served() as controller:
        assert heddle("export", "slurm", "--server", controller.grpc) == (0, wanted, "")


def test_nodes_that_the_fabric_does_not_know_are_below_a_switch_of_their_own(heddle, files, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("h[1-2]\nh[1-2]\nx[08-11]"))
    status, text, said = heddle("export", "slurm", tmp_path / "fabric.yaml", "--nodes", "-")
    assert status == 0
    assert said == "heddle: 4 nodes are no hosts of the fabric: x08, x09, x10, …\n"
    assert text.splitlines()[1:] == [
        "SwitchName=leaf1 Nodes=h[1-2]",
        "SwitchName=unknown Nodes=x[08-09],x[10-11]",
        "SwitchName=fabric Switches=unknown,leaf1",
    ]


@pytest.mark.parametrize("nodes", ["", " \n", "h[2-1]", "h[a-b]", "h1;rm", "h[1-", "h[1-70000]", "a/b", "\x00", "ä"])
def test_a_list_of_nodes_that_is_none_is_one_line_and_the_file_stays(heddle, files, tmp_path, nodes):
    out = files("topology.conf", SOUND)
    status, text, said = heddle(
        "export", "slurm", tmp_path / "fabric.yaml", "--nodes", files("nodes", nodes), "-o", out
    )
    assert (status, text, said.count("\n")) == (2, "", 1)
    assert out.read_text() == SOUND
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fabric.yaml", "jobs.yaml", "nodes", "topology.conf"]


@pytest.mark.parametrize("what", BROKEN)
def test_what_slurm_cannot_read_is_not_written(tmp_path, what):
    path = tmp_path / "topology.conf"
    path.write_text(SOUND)
    with pytest.raises(InputError, match=r"topology\.conf: not written: "):
        replace_file(path, BROKEN[what], Format.TREE, NODES)
    assert path.read_bytes() == SOUND.encode()
    assert list(tmp_path.iterdir()) == [path]


def test_the_last_sound_file_is_kept_and_one_that_somebody_broke_beside_it(tmp_path):
    path = tmp_path / "topology.conf"
    path.write_text(SOUND)
    path.chmod(0o640)
    assert replace_file(path, "# 2\n" + SOUND, Format.TREE, NODES)
    assert not replace_file(path, "# 2\n" + SOUND, Format.TREE, NODES)
    assert (tmp_path / "topology.conf.last").read_text() == SOUND
    path.write_text("SwitchName=leaf[A-B]\n")
    assert replace_file(path, "# 3\n" + SOUND, Format.TREE, NODES)
    assert (tmp_path / "topology.conf.last").read_text() == SOUND
    assert (tmp_path / "topology.conf.unsound").read_text() == "SwitchName=leaf[A-B]\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_to_the_file_stays_a_link(tmp_path):
    (tmp_path / "shared").write_text(SOUND)
    link = tmp_path / "topology.conf"
    link.symlink_to("shared")
    replace_file(link, "# 2\n" + SOUND, Format.TREE, NODES)
    assert link.is_symlink()
    assert (tmp_path / "shared").read_text() == "# 2\n" + SOUND


def test_slurm_is_reconfigured_once_for_each_change_of_the_tree(heddle, files, slurm, tmp_path):
    command = ("export", "slurm", tmp_path / "fabric.yaml", "-o", tmp_path / "topology.conf", "--reconfigure")
    _, text, _ = heddle(*command)
    assert text.endswith("topology.conf: 5 switches, 8 nodes: written, loaded by Slurm\n")
    _, text, _ = heddle(*command)
    assert text.endswith("topology.conf: 5 switches, 8 nodes: not changed\n")
    assert reconfigured(slurm) == 1


def test_a_run_that_ended_before_slurm_had_loaded_the_file_is_made_up_for(heddle, files, slurm, tmp_path):
    command = ("export", "slurm", tmp_path / "fabric.yaml", "-o", tmp_path / "topology.conf")
    heddle(*command)
    status, text, _ = heddle(*command, "--reconfigure")
    assert (status, reconfigured(slurm)) == (0, 1)
    assert text.endswith("not changed, loaded by Slurm\n")


def test_where_slurm_is_not_reconfigured_the_file_is_as_before(heddle, files, slurm, tmp_path):
    out = files("topology.conf", SOUND)
    (slurm / "dead").touch()
    command = ("export", "slurm", tmp_path / "fabric.yaml", "-o", out, "--reconfigure")
    status, text, said = heddle(*command)
    assert (status, text) == (1, "")
    assert said == (
        f"heddle: scontrol reconfigure: exit status 1: slurm_reconfigure error: dead; {out} is as it was before\n"
    )
    assert out.read_text() == SOUND
    out.unlink()
    heddle(*command)
    assert not out.exists()


def test_a_reconfiguration_that_fails_for_its_time_and_is_done_is_one(heddle, files, slurm, tmp_path):
    out = files("topology.conf", SOUND)
    (slurm / "dead").touch()
    (slurm / "scontrol").write_text(SCONTROL.replace("[ ! -e dead ]", "mv next shown; [ ! -e dead ]"))
    status, text, _ = heddle("export", "slurm", tmp_path / "fabric.yaml", "-o", out, "--reconfigure")
    assert (status, text) == (0, f"{out}: 5 switches, 8 nodes: written, loaded by Slurm\n")
    assert out.read_text() != SOUND


def test_a_slurm_that_shows_another_topology_is_reported(heddle, files, slurm, tmp_path):
    (slurm / "next").write_text("SwitchName=other Nodes=h1\nNo switches\nSwitchName=broken Nodes=h1 Switches=\n")
    status, _, said = heddle(
        "export", "slurm", tmp_path / "fabric.yaml", "-o", tmp_path / "topology.conf", "--reconfigure"
    )
    assert status == 1
    assert "Slurm shows another topology: is this the file beside its slurm.conf?" in said


@pytest.mark.parametrize(
    ("form", "version", "plugin", "problem"),
    [
        ("tree", "22.05.8", "topology/tree", ""),
        ("tree", "24.11.5", "topology/block", "TopologyPlugin is 'topology/block', --format tree is for topology/tree"),
        ("tree", "22.05.8", "topology/none", "TopologyPlugin is 'topology/none', --format tree is for topology/tree"),
        ("block", "24.11.5", "topology/block", ""),
        (
            "block",
            "22.05.8",
            "topology/tree",
            "TopologyPlugin is 'topology/tree', --format block is for topology/block",
        ),
        ("yaml", "25.05.0", "topology/tree", ""),
        ("yaml", "26.05.1-rc1", "topology/default", ""),
        ("yaml", "24.11.5", "topology/tree", "topology.yaml needs Slurm 25.05 or later, this is 24.11.5"),
        ("tree", "", "", "TopologyPlugin is 'unknown'"),
        ("yaml", "", "", "this is unknown"),
    ],
)
def test_a_file_of_a_format_that_slurm_does_not_read_is_not_written(
    heddle, files, slurm, tmp_path, form, version, plugin, problem
):
    text = CONFIG.replace("22.05.8", version).replace("topology/tree", plugin)
    (slurm / "config").write_text(text if version else "slurm_load_ctl_conf error\n")
    out = files("topology", "# before\n")
    status, _, said = heddle("export", "slurm", tmp_path / "fabric.yaml", "-o", out, "--format", form, "--reconfigure")
    assert (status, said.count("\n"), problem in said) == ((1, 1, True) if problem else (0, 0, True))
    assert (out.read_text() == "# before\n") == bool(problem)
    assert "reconfigure" not in (slurm / "calls").read_text() or not problem


@pytest.mark.parametrize("prints", ["", "\x00\xff", "h[1-", "slurm_load_partitions: Unable to contact"])
def test_a_sinfo_that_prints_no_nodes_is_one_line_and_the_file_stays(heddle, files, slurm, tmp_path, prints):
    (slurm / "nodes").write_bytes(prints.encode("latin-1"))
    out = files("topology.conf", SOUND)
    status, _, said = heddle("export", "slurm", tmp_path / "fabric.yaml", "-o", out, "--reconfigure")
    assert (status, said.count("\n"), out.read_text()) == (2, 1, SOUND)
    assert (slurm / "calls").read_text() == "show config\n"


def test_a_sinfo_of_more_nodes_than_slurm_can_have_is_one_line_and_the_file_stays(heddle, files, slurm, tmp_path):
    (slurm / "nodes").write_text("".join(f"n{number}\n" for number in range(100_000)))
    out = files("topology.conf", SOUND)
    status, _, said = heddle("export", "slurm", tmp_path / "fabric.yaml", "-o", out, "--reconfigure")
    assert (status, said.count("\n"), out.read_text()) == (2, 1, SOUND)
    assert "65,537 hosts or more; at most 65,536 are possible" in said


def test_a_topology_file_that_somebody_edited_is_ours_again_and_the_edited_one_is_kept(heddle, files, slurm, tmp_path):
    command = ("export", "slurm", tmp_path / "fabric.yaml", "-o", tmp_path / "topology.conf", "--reconfigure")
    heddle(*command)
    ours = (tmp_path / "topology.conf").read_text()
    for edited, kept in (
        ("# mine\n" + ours.replace("Nodes=h[1-2]", "Nodes=h[1-3]").replace("h[3-4]", "h4"), ".last"),
        (ours.replace("leaf[1-4]", "leaf[1-5]"), ".unsound"),
    ):
        (tmp_path / "topology.conf").write_text(edited)
        (slurm / "shown").write_text(SHOWN.replace("h[3-4]", "h[4]"))  # Slurm was reconfigured with it, too
        (slurm / "next").write_text(SHOWN)
        before = reconfigured(slurm)
        status, text, _ = heddle(*command)
        assert (status, text.partition("nodes: ")[2]) == (0, "written, loaded by Slurm\n")
        assert (tmp_path / "topology.conf").read_text() == ours
        assert (tmp_path / f"topology.conf{kept}").read_text() == edited
        assert reconfigured(slurm) == before + 1


@pytest.mark.parametrize("kind", ["folder", "fifo", "loop", "large", "in no folder"])
def test_a_topology_file_that_is_no_file_stays(tmp_path, kind):
    out = tmp_path / "topology.conf"
    if kind == "folder":
        out.mkdir()
    elif kind == "fifo":
        os.mkfifo(out)
    elif kind == "loop":
        out.symlink_to(out.name)
    elif kind == "large":
        os.close(os.open(out, os.O_CREAT | os.O_WRONLY))
        os.truncate(out, 200 << 20)
    else:
        out = tmp_path / "none" / "topology.conf"
    before = os.lstat(out) if os.path.lexists(out) else None
    with pytest.raises(OSError, match=r"topology\.conf"):
        put_topology(fabric_of(), Format.TREE, None, out, reconfigure=False, note=print)
    assert (os.lstat(out) if os.path.lexists(out) else None) == before
    assert not out.with_name("topology.conf.unsound").exists()


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("exec sleep 60", "sinfo -h: no end within 0.2 s"),
        ("sleep 60 & wait", "sinfo -h: no end within 0.2 s"),
        ("yes h1", "sinfo -h: more than 0 MiB of output"),
        ("exit 3", "sinfo -h: exit status 3: it says no more"),
        ("echo 'a\tb' >&2; exit 1", "sinfo -h: exit status 1: a\\tb"),
    ],
)
def test_a_command_that_hangs_or_prints_without_end_is_one_line(slurm, monkeypatch, script, line):
    monkeypatch.setattr(commands, "MAX_BYTES", 1_000)
    (slurm / "sinfo").write_text(f"#!/bin/sh\n{script}\n")
    with pytest.raises(UnavailableError) as caught:
        commands.run_slurm("sinfo", "-h", timeout_s=0.2 if "no end" in line else 60)
    assert str(caught.value) == line


def test_where_slurm_is_not_installed_the_line_says_so(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(PrerequisiteError, match=r"^sinfo: No such file .*: run this where Slurm's commands"):
        commands.run_slurm("sinfo")


def test_reconfigure_needs_a_file(heddle, files, tmp_path):
    status, _, said = heddle("export", "slurm", tmp_path / "fabric.yaml", "--reconfigure")
    assert (status, said.partition(":")[2].strip().startswith("--reconfigure needs -o FILE")) == (2, True)


def test_topograph_gets_every_node_with_its_layers_and_kubernetes_its_labels(heddle, files, tmp_path):
    _, text, _ = heddle("export", "topograph", tmp_path / "fabric.yaml")
    assert json.loads(text)["instances"][2] == {"id": "h3", "network_layers": ["leaf2", "fabric"], "labels": {}}
    out = tmp_path / "labels.json"
    assert heddle("export", "topograph", tmp_path / "fabric.yaml", "--labels", "-o", out) == (0, "", "")
    node = json.loads(out.read_text())["items"][2]
    assert (node["kind"], node["metadata"]["name"]) == ("Node", "h3")
    assert node["metadata"]["labels"] == {
        "fabric.topograph.run/tier-0": "leaf2", "fabric.topograph.run/tier-1": "fabric",
    }  # fmt: skip
