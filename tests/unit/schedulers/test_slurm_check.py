"""No file that ends slurmctld, or keeps nodes or jobs from running, passes the check."""

import pytest

from heddle.controller.schedulers.slurm_check import problems_of
from heddle.controller.schedulers.slurm_files import Format, slurm_text
from heddle.controller.schedulers.tree import tree_of
from tests.support.fabrics.planner_cases import fabric_of
from tests.support.schedulers.broken_topologies import BROKEN, NODES, SOUND


def test_a_sound_file_has_no_problems():
    assert problems_of(SOUND, Format.TREE, NODES) == ()


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_has_a_short_line_for_its_problem(what):
    found = problems_of(BROKEN[what], Format.TREE, NODES)
    assert found
    assert all(line.isprintable() and len(line) < 200 for line in found)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "BlockName=b1 Nodes=h[1-8]\nBlockName=b2 Nodes=h[9-16]\nBlockSizes=4,12\n",
            "each must be 4 x 2^k, k up to 15",
        ),
        (
            "BlockName=b1 Nodes=h[1-15]\nBlockName=b2 Nodes=h16\nBlockSizes=4\n",
            "a block has 1 nodes, less than the base 4",
        ),
        ("BlockName=b1 Nodes=h[1-16]\n", "BlockSizes: must be numbers"),
        ("BlockName=b1 Nodes=h[1-16]\nBlockSizes=0\n", "BlockSizes: must be numbers"),
        ("BlockName=b1 Nodes=h[1-16]\nBlockSizes=4\nBlockSizes=8\n", "line 3: must be BlockName"),
        ("BlockName=b1 Nodes=h[1-8]\nBlockSizes=8\n", "below no switch"),
        ("BlockName=b1 Nodes=h[1-16]\nBlockName=b1 Nodes=h1\nBlockSizes=1\n", "b1: defined 2 times"),
        ("BlockName=b1\nBlockSizes=1\n", "b1: must have either nodes"),
    ],
)
def test_sizes_of_blocks_that_slurm_refuses_are_named(text, line):
    assert any(line in each for each in problems_of(text, Format.BLOCK, NODES))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("cluster_default: true", "cluster_default: false"),
        lambda text: text.replace("- topology: heddle\n  cluster", "- cluster"),
        lambda text: text.replace("children", "child"),
        lambda text: text.replace('"h[1-2]"', "[h1, h2]"),
        lambda text: text.replace('"h[1-2]"', '"h[2-1]"'),
        lambda text: text.replace("switches:", "switches: 3 #"),
        lambda text: text + text.replace("---\n", ""),
        lambda text: "[" * 10_000,
        lambda text: "&a [*a]",
        lambda text: "",
    ],
)
def test_a_yaml_file_of_another_form_is_refused(change):
    text = slurm_text(tree_of(fabric_of()).root, Format.YAML)
    assert problems_of(text, Format.YAML, NODES[:4]) == ()
    assert problems_of(change(text), Format.YAML, NODES[:4])


def test_many_nodes_are_named_by_three_and_their_number():
    (line,) = problems_of(SOUND, Format.TREE, [*NODES, *(f"x{number}" for number in range(2_000))])
    assert line == "x0, x1, x2 and 1,997 more: below no switch, so that no job could run there"


def test_more_nodes_than_slurm_takes_are_one_line():
    text = "SwitchName=a Nodes=h[1-50000]\nSwitchName=b Nodes=h[50001-100000]\nSwitchName=f Switches=a,b\n"
    assert problems_of(text, Format.TREE) == ("100,000 nodes; Slurm takes 65,536",)
    assert problems_of(text.replace("50001", "1"), Format.TREE) == (
        "b: 100,000 hosts or more; at most 65,536 are possible",
    )


def test_a_chain_that_is_too_deep_is_refused():
    chain = [f"SwitchName=s{level} Switches=s{level - 1}\n" for level in range(1, 25)]
    (line,) = problems_of("SwitchName=s0 Nodes=h[1-16]\n" + "".join(chain), Format.TREE, NODES)
    assert "more than 20 deep" in line
