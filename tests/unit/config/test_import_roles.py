"""Roles follow from the links; names, groups and labels decide only what the links leave open."""

from heddle.controller.config.foreign.hints import Hint, hint_of
from tests.unit.config.foreign_files import imported, joined, lab, refused, roles

PAIR = "lo:eth1-up:eth1 hi:eth1-up:eth2 lo:eth2-top:eth1 hi:eth2-top:eth2 "
"""Two leaves below two spines."""
HOSTS = "lo:eth5-a:eth1 hi:eth5-b:eth1 "
TWO_TIERS = {"lo": "leaf", "hi": "leaf", "up": "spine", "top": "spine"}


def hosts(found):
    return sorted({nic.host for nic in found.fabric.nics})


def test_an_unused_leaf_is_no_core():
    found = imported(
        lab({"ceos": "lo hi up top spare", "linux": "a b"}, PAIR + HOSTS + "spare:eth1-up:eth3 spare:eth2-top:eth3")
    )
    assert roles(found) == TWO_TIERS | {"spare": "leaf"}
    assert found.left_out == ()


def test_an_unused_leaf_that_is_named_a_core_among_wrong_names_is_no_core():
    text = lab(
        {"ceos": "spine1 hi leaf1 top core1", "linux": "a b"},
        (PAIR + HOSTS).replace("lo:", "spine1:").replace("up:", "leaf1:") + "core1:eth1-leaf1:eth3 core1:eth2-top:eth3",
    )
    assert roles(imported(text))["core1"] == "leaf"


def test_a_superspine_above_the_only_pod_is_a_core_by_its_name():
    text = lab(
        {"ceos": "lo hi up top superspine1", "linux": "a b"},
        PAIR + HOSTS + "superspine1:eth1-up:eth3 superspine1:eth2-top:eth3",
    )
    assert roles(imported(text))["superspine1"] == "core"


def test_switches_that_join_pods_are_cores_whatever_their_names():
    links = (
        "p1:eth1-q1:eth1 p1:eth2-q2:eth1 p2:eth1-q3:eth1 p2:eth2-q4:eth1 leaf1:eth1-q1:eth2 leaf1:eth2-q3:eth2 "
        "leaf2:eth1-q2:eth2 leaf2:eth2-q4:eth2 p1:eth9-a:eth1 p2:eth9-b:eth1"
    )
    found = imported(lab({"ceos": "p1 p2 q1 q2 q3 q4 leaf1 leaf2", "linux": "a b"}, links))
    assert {name for name, role in roles(found).items() if role == "core"} == {"leaf1", "leaf2"}


def test_a_collector_on_a_spine_makes_no_leaf_of_it():
    found = imported(lab({"ceos": "lo hi up top", "linux": "a b probe"}, PAIR + HOSTS + "top:eth9-probe:eth1"))
    assert roles(found) == TWO_TIERS
    assert len(found.fabric.cables) == 4
    assert hosts(found) == ["a", "b"]
    assert found.left_out == ("left out 1 x NIC on a switch above the leaves; the first at source: topology.links[6]",)


def test_collectors_on_all_spines_leave_the_side_with_more_hosts_as_leaves():
    links = PAIR + HOSTS + "lo:eth6-c:eth1 hi:eth6-d:eth1 up:eth9-x:eth1 top:eth9-y:eth1"
    found = imported(lab({"ceos": "lo hi up top", "linux": "a b c d x y"}, links))
    assert roles(found) == TWO_TIERS
    assert hosts(found) == ["a", "b", "c", "d"]


def test_names_decide_which_of_two_equal_sides_is_above():
    links = (PAIR + HOSTS + "up:eth9-x:eth1 top:eth9-y:eth1").replace("up:", "spine1:").replace("top:", "spine2:")
    links += " hi:eth6-c:eth1"
    found = imported(lab({"ceos": "lo hi spine1 spine2", "linux": "a b c x y"}, links))
    assert roles(found) == {"lo": "leaf", "hi": "leaf", "spine1": "spine", "spine2": "spine"}


def test_a_collector_on_a_core_does_not_take_it_from_the_fabric():
    links = "".join(
        f"l{pod}:eth1-a{pod}:eth1 m{pod}:eth1-a{pod}:eth2 a{pod}:eth8-c1:eth{pod} a{pod}:eth9-c2:eth{pod} "
        f"l{pod}:eth5-g{pod}:eth1 m{pod}:eth5-h{pod}:eth1 "
        for pod in (1, 2)
    )
    found = imported(lab({"ceos": "l1 l2 m1 m2 a1 a2 c1 c2", "linux": "g1 g2 h1 h2 tap"}, links + "c2:eth9-tap:eth1"))
    assert {name for name, role in roles(found).items() if role == "core"} == {"c1", "c2"}
    assert len(found.fabric.cables) == 8


def test_leaves_on_two_spines_are_no_cores_beside_an_unused_one_and_leaves_on_one_spine():
    links = (
        PAIR
        + HOSTS
        + "one:eth1-up:eth4 one:eth2-c:eth1 two:eth1-top:eth4 two:eth2-d:eth1 spare:eth1-up:eth5 spare:eth2-top:eth5"
    )
    found = roles(imported(lab({"ceos": "lo hi up top one two spare", "linux": "a b c d"}, links)))
    assert (found["lo"], found["hi"]) == ("leaf", "leaf")


def test_bridges_without_hosts_are_left_out():
    found = imported(
        lab(
            {"srl": "lo hi up top", "bridge": "br1 br2", "linux": "a b"},
            PAIR + HOSTS + "br1:x1-top:eth8 br2:x2-up:eth8",
        )
    )
    assert roles(found) == TWO_TIERS
    assert "left out 2 x bridge without hosts; the first at source: topology.nodes.br1" in found.left_out


def test_a_bridge_that_joins_the_leaves_is_their_spine():
    found = imported(
        lab({"srl": "lo hi", "bridge": "br", "linux": "a b"}, "lo:e1-br:x1 hi:e1-br:x2 lo:e2-a:eth1 hi:e2-b:eth1")
    )
    assert roles(found) == {"lo": "leaf", "hi": "leaf", "br": "spine"}


def test_switches_below_those_named_leaf_are_the_leaves():
    links = "top:eth1-leaf1:eth9 top:eth2-leaf2:eth9 leaf1:eth1-acc1:eth9 leaf2:eth1-acc2:eth9 "
    links += "acc1:eth1-a:eth1 acc2:eth1-b:eth1"
    text = lab({"ceos": "top leaf1 leaf2", "ovs-bridge": "acc1 acc2", "linux": "a b"}, links, leaf1={"group": "leaf"})
    assert roles(imported(text)) == {"top": "core", "leaf1": "agg", "leaf2": "agg", "acc1": "leaf", "acc2": "leaf"}


def test_a_leaf_may_hang_on_a_core():
    links = PAIR + HOSTS + "up:eth9-core:eth1 top:eth9-core:eth2 border:eth1-core:eth3 border:eth2-c:eth1"
    found = imported(lab({"ceos": "lo hi up top core border", "linux": "a b c"}, links))
    assert roles(found) == {"lo": "leaf", "hi": "leaf", "border": "leaf", "up": "agg", "top": "agg", "core": "core"}
    assert ("border", "core") in joined(found)
    assert len(found.fabric.cables) == 7


def test_hosts_named_after_their_leaf_are_hosts():
    links = "leaf1:eth1-s:eth1 leaf2:eth1-s:eth2 leaf1:eth3-leaf1-gpu1:eth1 leaf2:eth3-leaf2x:eth1".replace(
        "leaf1-gpu1", "leaf1_gpu1"
    )
    found = imported(lab({"linux": "s leaf1 leaf2 leaf1_gpu1 leaf2x"}, links))
    assert hosts(found) == ["leaf1_gpu1", "leaf2x"]
    assert roles(found) == {"s": "spine", "leaf1": "leaf", "leaf2": "leaf"}


def test_nodes_of_kind_linux_that_forward_are_switches():
    found = imported(
        lab({"linux": "s1 l1 l2 n1 n2"}, "l1:eth1-s1:eth1 l2:eth1-s1:eth2 l1:eth2-n1:eth1 l2:eth2-n2:eth1")
    )
    assert roles(found) == {"s1": "spine", "l1": "leaf", "l2": "leaf"}


def test_a_linux_node_with_several_links_is_a_host_beside_switches_of_a_kind():
    links = PAIR + "lo:eth5-a:eth1 hi:eth5-a:eth2 lo:eth6-b:eth1 hi:eth6-b:eth2"
    found = imported(lab({"sonic-vs": "lo hi up top", "linux": "a b"}, links))
    assert roles(found) == TWO_TIERS
    assert [nic.id for nic in found.fabric.nics] == ["a-n0", "a-n1", "b-n0", "b-n1"]


def test_a_node_with_several_links_is_a_host_by_its_name_where_all_are_of_kind_linux():
    links = PAIR + "lo:eth5-gpu7:eth1 hi:eth5-gpu7:eth2 lo:eth6-a:eth1"
    found = imported(lab({"linux": "lo hi up top gpu7 a"}, links))
    assert roles(found) == TWO_TIERS
    assert hosts(found) == ["a", "gpu7"]


def test_a_switch_of_a_kind_that_is_named_a_host_and_has_none_is_a_host():
    links = PAIR + "lo:eth5-client:eth1 hi:eth5-client:eth2 lo:eth6-a:eth1"
    found = imported(lab({"ceos": "lo hi up top client", "linux": "a"}, links))
    assert roles(found) == TWO_TIERS
    assert hosts(found) == ["a", "client"]


def test_a_switch_named_a_server_that_has_hosts_is_a_switch():
    links = (PAIR + HOSTS).replace("lo:", "server1:")
    found = imported(lab({"ceos": "server1 hi up top", "linux": "a b"}, links))
    assert roles(found)["server1"] == "leaf"


def test_links_between_peers_are_left_out_and_counted():
    links = PAIR + HOSTS + "lo:eth8-hi:eth8 lo:eth9-hi:eth9 up:eth9-top:eth9"
    found = imported(lab({"ceos": "lo hi up top", "linux": "a b"}, links))
    assert roles(found) == TWO_TIERS
    assert found.left_out == ("left out 3 x link within one tier; the first at source: topology.links[6]",)


def test_a_file_that_loses_more_than_a_small_part_of_its_links_is_refused_with_the_remedy():
    """Of two leaves that hang on different spines one link joins nothing but them."""
    links = "lo:eth1-up:eth1 hi:eth1-up:eth2 far:eth1-lo:eth9 lo:eth5-a:eth1 hi:eth5-b:eth1 far:eth5-c:eth1"
    line = refused(lab({"ceos": "lo hi up far", "linux": "a b c"}, links))
    assert line == (
        "source: topology.links[2]: 1 of 3 links between switches join no two tiers, the first here: 'far' and 'lo' "
        "would both be a leaf; give the right roles, such as --role far=spine (host, leaf, spine or core)"
    )


def test_routers_in_a_triangle_have_no_spine():
    links = "r1:eth1-r2:eth1 r2:eth2-r3:eth1 r3:eth2-r1:eth2 r1:eth3-a:eth1 r2:eth3-b:eth1 r3:eth3-c:eth1"
    assert "no spine" in refused(lab({"ceos": "r1 r2 r3", "linux": "a b c"}, links))


def test_a_file_in_which_most_hosts_are_above_the_leaves_is_refused():
    links = "lo:eth1-mid:eth1 hi:eth1-mid:eth2 lo:eth2-a:eth1 hi:eth2-b:eth1 mid:eth6-c:eth1 "
    links += "mid:eth7-d:eth1 mid:eth8-e:eth1"
    line = refused(lab({"ceos": "lo hi mid", "linux": "a b c d e"}, links), roles={"mid": Hint.SPINE})
    assert "3 of 5 hosts are on switches that are above others with hosts, the first on 'mid'" in line


def test_a_collector_on_every_spine_by_names_is_left_out():
    links = (PAIR + HOSTS + "up:eth9-x:eth1 top:eth9-x:eth2").replace("up:", "spine1:").replace("top:", "spine2:")
    found = imported(lab({"ceos": "lo hi spine1 spine2", "linux": "a b x"}, links))
    assert roles(found) == {"lo": "leaf", "hi": "leaf", "spine1": "spine", "spine2": "spine"}
    assert hosts(found) == ["a", "b"]


FOUR = "".join(f"leaf{at}:eth1-s1:eth{at} leaf{at}:eth2-s2:eth{at} leaf{at}:eth5-h{at}:eth1 " for at in (1, 2, 3, 4))
BELOW = "below:eth1-leaf1:eth8 below:eth2-leaf2:eth8 "


def test_a_switch_with_hosts_below_two_of_the_leaves_is_no_spine():
    """It hangs on leaves that have hosts of their own, which no fabric file can hold."""
    more = "leaf1:eth6-i:eth1 leaf2:eth6-j:eth1 below:eth5-k:eth1"
    text = lab({"ceos": "leaf1 leaf2 leaf3 leaf4 s1 s2 below", "linux": "h1 h2 h3 h4 i j k"}, FOUR + BELOW + more)
    assert "2 of 10 links between switches join no two tiers" in refused(text)


def test_a_switch_without_hosts_below_two_of_the_leaves_is_no_spine_if_named_so():
    text = lab(
        {"ceos": "leaf1 leaf2 leaf3 leaf4 s1 s2 acc-leaf", "linux": "h1 h2 h3 h4"},
        FOUR + BELOW.replace("below", "acc_leaf"),
    )
    found = imported(text.replace("acc_leaf", "acc-leaf"))
    assert {name for name, role in roles(found).items() if role == "spine"} == {"s1", "s2"}
    assert len(found.fabric.cables) == 8


def test_a_given_role_outranks_links_and_names():
    links = "lo:eth1-mid:eth1 hi:eth1-mid:eth2 lo:eth2-a:eth1 hi:eth2-b:eth1 mid:eth7-c:eth1"
    text = lab({"ceos": "lo hi mid", "linux": "a b c"}, links)
    assert "no spine" in refused(text)
    assert roles(imported(text, roles={"mid": Hint.SPINE})) == {"lo": "leaf", "hi": "leaf", "mid": "spine"}


def test_a_node_that_is_said_to_be_a_host_is_one():
    links = PAIR + "lo:eth5-x:eth1 hi:eth5-x:eth2 lo:eth6-a:eth1"
    text = lab({"linux": "lo hi up top x a"}, links)
    assert hosts(imported(text)) == ["a"]
    assert hosts(imported(text, roles={"x": Hint.HOST})) == ["a", "x"]


def test_a_role_for_a_node_that_is_not_there_is_refused():
    text = lab({"ceos": "lo hi up top", "linux": "a b"}, PAIR + HOSTS)
    assert refused(text, roles={"upp": Hint.SPINE}) == "source: --role 'upp': the file has no node of this name"


def test_a_file_without_hosts_says_what_it_took_for_switches():
    line = refused(lab({"ceos": "lo hi up top"}, PAIR))
    assert "no host is linked to a switch" in line
    assert "the file has 4 switch(es) (lo, hi, up and 1 more): add the links of hosts" in line


def test_the_last_known_word_of_a_name_counts():
    for name, hint in (
        ("leaf1-gpu2", Hint.HOST), ("gpu-leaf-01", Hint.LEAF), ("dc1-super-spine1", Hint.CORE), ("spine01", Hint.SPINE),
        ("h12", Hint.HOST), ("s1", None), ("tier-2", Hint.SPINE), ("core-router", Hint.SWITCH), (7, None),
    ):  # fmt: skip
        assert hint_of(name) == hint
