"""What differs between two fabrics is listed whole, and each copy of the file that it concerns is named once."""

from dataclasses import fields, replace

import pytest

from heddle.controller.api.services.fabric import foresight_to
from heddle.controller.brain.begin import begin
from heddle.controller.model.fabric import PortRef
from heddle.controller.model.fabric_change import FabricChange, Parts, changes_between
from heddle.controller.runtime.journal.foresight import foreseen, running_of
from heddle.controller.views.fabric_differences import (
    ADDED,
    CHANGED,
    REMOVED,
    TEXTS,
    Difference,
    Setup,
    copies,
    differences,
    summary,
)
from tests.support.fabrics.grown_files import LEAF_MORE, SLOWER, YARD
from tests.unit.journal.test_another_fabric import fabric_of

HOST_AT_LEAF1 = 'hosts: [{id: more, nics: [{id: more-n0, ip: 10.9.0.1, port: "leaf1:33", gbps: 40}]}]\n'
ALL = Setup(has_tls=True, has_broker=True)
NEW = ("leaf4", "h7", "h8")


def change(before: str, after: str) -> FabricChange:
    return changes_between(fabric_of(before), fabric_of(after))


def test_every_kind_of_change_has_its_kind_of_difference():
    assert {field.name for field in fields(FabricChange)} == {"added", "removed", *CHANGED, *TEXTS}
    names = {field.name for field in fields(Parts)}
    assert {*ADDED, *REMOVED} == {f"{side}_{name}" for side in ("added", "removed") for name in names}


def test_a_leaf_more_is_its_switch_hosts_cables_and_nics_and_the_way_back_removes_them():
    found = differences(change(YARD, LEAF_MORE))
    assert found == (
        Difference("added_switches", "leaf4"),
        *(Difference("added_hosts", name) for name in ("h7", "h8")),
        *(Difference("added_cables", f"leaf4:{n}>spine{n}:4") for n in (1, 2)),
        *(Difference("added_nics", name) for name in ("h7-n0", "h8-n0")),
    )
    back = differences(change(LEAF_MORE, YARD))
    assert {one.kind.replace("removed", "added") for one in back} == {one.kind for one in found}


def test_values_are_texts_with_rates_in_bits_a_second_and_settings_beside_the_parts_are_listed():
    (slower,) = differences(change(YARD, SLOWER))
    assert slower == Difference("rates", "leaf3:2>spine2:3", "40000000000", "20000000000")
    settings = differences(change(YARD, YARD + "failed: [spine1]\nreserve: {leaf_uplinks: 4}\n"))
    assert settings == (
        Difference("others", "failed", "none", "spine1"),
        Difference("others", "reserve", "none", "leaf_uplinks=4"),
    )
    fabric = fabric_of(YARD)
    first, *rest = fabric.nics
    moved = replace(first, port=PortRef("leaf1", 9), rail=3, mac=first.mac + 1)
    other = differences(changes_between(fabric, replace(fabric, nics=(moved, *rest))))
    kinds = {"moved_nics": "h1-n0", "addresses": "h1-n0", "others": "rail of h1-n0"}
    assert {one.kind: one.id for one in other} == kinds
    assert differences(change(YARD, YARD)) == ()
    assert summary(change(YARD, SLOWER)) == "rates 1"


@pytest.mark.parametrize(
    ("after", "setup", "wanted"),
    [
        (YARD, ALL, {}),
        (SLOWER, ALL, {"the file": (), "the ports": ()}),
        (LEAF_MORE, Setup(), {"the file": (), "agents": NEW}),
        (LEAF_MORE, Setup(is_one_of_several=True), {"the files of the other": (), "agents": NEW}),
        (LEAF_MORE, ALL, {"the file": (), **dict.fromkeys(("the ports", "agents", "the access list", "cert"), NEW)}),
    ],
    ids=["nothing", "a rate", "bare", "several", "all"],
)
def test_the_copies_that_a_change_concerns_are_named_with_their_parts(after, setup, wanted):
    found = copies(change(YARD, after), setup)
    for one, (what, parts) in zip(found, wanted.items(), strict=True):
        assert one.what.startswith(what)
        assert one.parts == parts


def test_what_follows_by_itself_asks_for_nothing_and_certificates_of_what_is_gone_are_denied():
    found = {one.what: one.todo for one in copies(change(LEAF_MORE, YARD), ALL)}
    assert [what for what, todo in found.items() if not todo] == [
        "the ports that the collector of this controller knows"
    ]
    assert found["certificates of what is gone"] == "`heddle pki deny`"


@pytest.mark.parametrize(
    ("after", "wanted"),
    [
        (SLOWER, None),
        (LEAF_MORE, {"leaf4", "spine1", "spine2"}),
        (LEAF_MORE + HOST_AT_LEAF1, {"leaf1", "leaf4", "spine1", "spine2"}),
        (YARD + HOST_AT_LEAF1, {"leaf1"}),
        (YARD.replace("yard", "garden"), None),
        (YARD + 'srv6: {block: "fcbb:5::/32"}\n', set()),
    ],
    ids=["a rate", "a leaf", "a leaf and a host at another", "a host", "another name", "another block"],
)
def test_static_sids_are_a_copy_of_the_file_where_packets_name_their_paths(after, wanted):
    before, after = (f"steering: srv6\n{text}" for text in (YARD, after))
    assert copied_sids(before, after) == ([] if wanted is None else [wanted])


def test_all_static_sids_are_written_where_packets_begin_to_name_their_paths_and_none_where_they_end():
    srv6 = f"steering: srv6\n{YARD}"
    assert copied_sids(f"steering: hash\n{YARD}", srv6) == [set()]
    assert copied_sids(srv6, f"steering: hash\n{YARD}") == []


def copied_sids(before: str, after: str) -> list[set[str]]:
    """Return the switches whose static SIDs are to be written, as `heddle fabric apply` foresees them."""
    running = running_of(begin(fabric_of(before)))
    found = foresight_to(foreseen(running, fabric_of(after)), Setup(), applied=False)
    return [set(one.parts) for one in found.copies if one.what == "static SIDs"]
