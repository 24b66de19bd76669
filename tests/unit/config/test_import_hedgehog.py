import json

import pytest

from tests.unit.config.foreign_files import HEDGEHOG, imported, refused, roles


def test_connections_become_cables_and_nics_with_the_numbers_of_their_ports():
    found = imported(HEDGEHOG)
    assert found.format == "hedgehog"
    assert roles(found) == {"s-1": "spine", "l-1": "leaf", "l-2": "leaf"}
    cables = [(str(one.lower), str(one.upper)) for one in found.fabric.cables]
    assert cables == [("l-1:30", "s-1:11"), ("l-1:31", "s-1:12"), ("l-2:30", "s-1:21")]
    nics = [(nic.id, nic.rail, str(nic.port)) for nic in found.fabric.nics]
    assert nics == [("box-1-n0", 0, "l-1:5"), ("box-2-n0", 0, "l-1:6"), ("box-2-n1", 1, "l-2:6")]


def test_links_of_peers_loops_and_links_to_the_outside_are_left_out_and_counted():
    assert [line.split(";")[0] for line in imported(HEDGEHOG).left_out] == [
        "left out 1 x loop of a switch to itself",
        "left out 1 x external link",
        "left out 2 x link within one tier",
    ]


def test_the_role_of_a_switch_decides_where_the_links_leave_a_choice():
    """One spine with a server, and two leaves with as many each."""
    text = HEDGEHOG + "---\napiVersion: wiring.githedgehog.com/v1beta1\nkind: Server\nmetadata: {name: probe}\n"
    for number in (1, 2):
        text += "---\napiVersion: wiring.githedgehog.com/v1beta1\nkind: Connection\n"
        ends = f"{{server: {{port: probe/p{number}}}, switch: {{port: s-1/E1/4{number}}}}}"
        text += f"metadata: {{name: p{number}}}\nspec: {{unbundled: {{link: {ends}}}}}\n"
    found = imported(text)
    assert roles(found) == {"s-1": "spine", "l-1": "leaf", "l-2": "leaf"}
    assert {nic.host for nic in found.fabric.nics} == {"box-1", "box-2"}


def test_line_ends_of_windows_separate_documents_too():
    for separator in ("---\n", "--- # next\n"):
        text = HEDGEHOG.replace("---\n", separator).replace("\n", "\r\n")
        assert imported(text).fabric == imported(HEDGEHOG).fabric


def test_a_list_as_kubectl_prints_it_is_read():
    objects = [
        {"kind": "Switch", "metadata": {"name": name}, "spec": {"role": "server-leaf"}} for name in ("one", "two")
    ]
    objects += [{"kind": "Switch", "metadata": {"name": "three"}, "spec": {"role": "spine"}}]
    objects += [{"kind": "Server", "metadata": {"name": name}} for name in ("x", "y")]
    joined = [("fabric", "one/E1/1", "three/E1/1"), ("fabric", "two/E1/1", "three/E1/2")]
    joined += [("bundled", "x/p1", "one/E1/9"), ("bundled", "y/p1", "two/E1/9")]
    for number, (kind, a, b) in enumerate(joined):
        link = {"leaf": {"port": a}, "spine": {"port": b}}
        if kind == "bundled":
            link = {"server": {"port": a}, "switch": {"port": b}}
        objects.append({"kind": "Connection", "metadata": {"name": f"c{number}"}, "spec": {kind: {"links": [link]}}})
    objects = [{"apiVersion": "wiring.githedgehog.com/v1beta1"} | one for one in objects]
    found = imported(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    assert roles(found) == {"three": "spine", "one": "leaf", "two": "leaf"}
    assert [str(nic.port) for nic in found.fabric.nics] == ["one:9", "two:9"]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("l-1/E1/30", "l-9/E1/30", "source: documents[6].spec.fabric.links[0].leaf.port: no Switch or Server is named"),
        (
            "l-1/E1/30",
            "l-1",
            "source: documents[6].spec.fabric.links[0].leaf.port: 'l-1' is no port such as leaf-01/E1",
        ),
        (
            "l-1/E1/31",
            "l-1/E1/30",
            "source: documents[6].spec.fabric.links[1]: 'l-1/E1/30' is used at documents[6].spec",
        ),
        ("{name: l-2}", "{name: l-1}", "source: documents[2]: a second device named 'l-1'; the first is documents[1]"),
        ("{name: l-2}", "{}", "source: documents[2].metadata.name: must be a text, is nothing"),
        ("metadata: {name: s-1}\n", "metadata: 7\n", "source: documents[3].metadata: must be a mapping, is 7"),
        ("{leaf: {port: l-1/E1/31}, spine", "{spine", "source: documents[6].spec.fabric.links[1]: 1 ports; a link has"),
        ("spec: {role: spine}", "spec: {role: [spine}", "source: document 4: line"),
    ],
)
def test_a_wrong_key_is_named(before, after, expected):
    assert refused(HEDGEHOG.replace(before, after, 1), "hedgehog").startswith(expected)


def test_a_fabric_without_spines_is_refused():
    text = HEDGEHOG.replace("spec: {role: spine}", "spec: {role: server-leaf}").replace("fabric:", "external:")
    assert "no spine" in refused(text)
