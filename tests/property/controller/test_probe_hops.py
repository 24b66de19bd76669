"""The switches and links at each hop hold every shortest path that networkx finds on the cables, and no other hop."""

from dataclasses import replace

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.probe_sessions.hops import Hops
from tests.support.examples import examples
from tests.support.fabrics.small_fabrics import clos3, spine_leaf

WHOLE = [spine_leaf(3, 3, 3), clos3(2, 2, 2, 4)]


def paths(fabric, src, dst):
    """Return the switches of every shortest path, leaf to leaf."""
    graph = nx.Graph((cable.lower.switch, cable.upper.switch) for cable in fabric.cables)
    graph.add_nodes_from(fabric.switch_by_id)
    return list(nx.all_shortest_paths(graph, src, dst)) if nx.has_path(graph, src, dst) else []


def _climbs_once(tiers):
    top = tiers.index(max(tiers))
    return tiers == sorted(tiers[:top]) + sorted(tiers[top:], reverse=True)


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(WHOLE), st.data())
def test_every_shortest_path_is_among_the_hops(whole, data):
    lost = data.draw(st.sets(st.sampled_from(whole.cables), max_size=4))
    fabric = replace(whole, cables=tuple(cable for cable in whole.cables if cable not in lost))
    src, dst = data.draw(st.sampled_from(fabric.nics)), data.draw(st.sampled_from(fabric.nics))
    hops, found = Hops(fabric), paths(fabric, src.port.switch, dst.port.switch)
    up_and_down = [path for path in found if _climbs_once([fabric.switch_by_id[name].role.tier for name in path])]
    for path in up_and_down:
        for hop, switch in enumerate(path, start=1):
            assert switch in hops.switches(src.ip, dst.ip, hop)
        for hop in range(2, len(path) + 1):
            between = {path[hop - 2], path[hop - 1]}
            cable = next(each for each in fabric.cables if {each.lower.switch, each.upper.switch} == between)
            link = cable.up_link if cable.upper.switch == path[hop - 1] else cable.down_link
            assert hops.may_end(src.ip, dst.ip, hop, link)
            assert not hops.may_end(src.ip, dst.ip, hop, cable.down_link if link == cable.up_link else cable.up_link)
        assert hops.switches(src.ip, dst.ip, len(path) + 1) == frozenset()
    if not lost:
        for hop in range(1, len(found[0]) + 1):
            assert hops.switches(src.ip, dst.ip, hop) == {path[hop - 1] for path in found}
