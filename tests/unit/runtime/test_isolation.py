"""The verdict on the isolation of VPCs: what it rests on, and tables that cannot be verified."""

import io
import zipfile
from dataclasses import replace
from ipaddress import IPv4Address, ip_network

import pytest

from heddle.controller.brain.networks.publishing import desired_of
from heddle.controller.brain.virtual_networks import Gateway, Networks
from heddle.controller.runtime.isolation.verification import MAX_UNPACKED_BYTES, found_in, verified
from heddle.controller.runtime.isolation.verifier import Verifier
from heddle.controller.runtime.isolation.wire import Verify
from heddle.controller.views.isolation import LATE_MS, STALE_MS, Checked, Verdict, isolation_of
from heddle.dataplane.config.balancers import LoadBalancer
from heddle.dataplane.config.desired import Kind
from heddle.dataplane.config.local import Interface, Side
from heddle.dataplane.config.network import Subnet, Vpc
from heddle.dataplane.tables.compiler.archive import packed
from heddle.dataplane.tables.compiler.compile import compile_tables
from heddle.dataplane.verify.compare import MAX_FINDINGS, Finding
from tests.unit.cli.test_vpc import LOCAL

OUTSIDE = Interface(name="x", side=Side.EXTERNAL, mac=0x0200_0000_0009, address=IPv4Address("203.0.113.2"))
NOW_MS, GENERATION = 1_000_000, 7
RUNS = Gateway(vtep=IPv4Address("10.0.0.100"), session=1, acknowledged=GENERATION)


def vpc(name, vni):
    prefix = ip_network(f"10.{vni}.0.0/24")
    return Vpc(id=name, vni=vni, subnets=(Subnet(prefix=prefix, gateway=prefix[1]),))


NETWORKS = Networks(
    generation=GENERATION, vpcs={"red": vpc("red", 1), "blue.2": vpc("blue.2", 2)}, gateways={"gw1": RUNS}
)
WHOLE = Checked(unix_ms=NOW_MS - 4_000, generation=GENERATION, vpcs=frozenset(NETWORKS.vpcs))
REQUEST = Verify("gw1", NETWORKS, "", (("storage", ("10.200.0.0/16",)),), b"")


def verdicts(networks=NETWORKS, now_ms=NOW_MS, **checked):
    return isolation_of(networks, checked, now_ms)


def with_gateway(**changes):
    return replace(NETWORKS, gateways={"gw1": replace(RUNS, **changes)})


def test_vpcs_are_verified_where_every_gateway_opens_exactly_the_intended_paths():
    found = verdicts(gw1=WHOLE)
    assert {each.verdict for each in found.values()} == {Verdict.VERIFIED}
    assert found["red"].checked_unix_ms == NOW_MS - 4_000


@pytest.mark.parametrize(
    ("networks", "checked", "why"),
    [
        (replace(NETWORKS, gateways={}), WHOLE, "no gateway has attached"),
        (with_gateway(session=None), WHOLE, "gw1 is detached"),
        (with_gateway(refused="no room"), WHOLE, "gw1 refuses the newest generation: no room"),
        (with_gateway(kept={"red": "as before: no room"}), WHOLE, "vpc red at gw1: as before: no room"),
        (with_gateway(unknown=frozenset({"old"})), WHOLE, "gw1 serves VPCs that the controller does not know"),
        (NETWORKS, None, "gw1 is not verified yet"),
        (replace(NETWORKS, generation=0), None, "nothing was published to gateways"),
        (NETWORKS, replace(WHOLE, failure="it went away"), "gw1: it went away"),
        (NETWORKS, replace(WHOLE, unix_ms=NOW_MS - STALE_MS - 1), "gw1 was verified 1800 s ago"),
        (NETWORKS, replace(WHOLE, generation=6, unix_ms=NOW_MS - LATE_MS - 1), "gw1: its newest generation is not"),
        (NETWORKS, replace(WHOLE, vpcs=frozenset({"blue.2"})), "gw1: its newest generation is not"),
        (NETWORKS, replace(WHOLE, is_whole=False, total=1_234), "gw1: 1234 paths differ"),
    ],
)
def test_what_the_controller_cannot_know_is_unknown_with_the_reason(networks, checked, why):
    found = isolation_of(networks, {"gw1": checked} if checked is not None else {}, NOW_MS)["red"]
    assert found.verdict is Verdict.UNKNOWN
    assert found.why[0].startswith(why)


def test_a_balancer_counts_where_a_vpc_has_a_load_balancer_that_it_can_serve():
    web = LoadBalancer(id="web", tenant="t1", vpc="red", vip=IPv4Address("10.1.0.9"), port=80)
    balancer = replace(RUNS, kind=Kind.BALANCER)
    networks = replace(NETWORKS, gateways={"gw1": RUNS, "lb1": balancer}, load_balancers={"web": web})
    red = verdicts(networks, gw1=WHOLE)["red"]
    assert (red.verdict, red.why) == (Verdict.UNKNOWN, ("lb1 is not verified yet",))
    for lb1, verdict in (
        (replace(WHOLE, vpcs=frozenset({"red"})), Verdict.VERIFIED),
        (replace(WHOLE, vpcs=frozenset()), Verdict.VERIFIED),
        (replace(WHOLE, differing={"red": ("leak: …",)}), Verdict.VIOLATED),
    ):
        found = verdicts(networks, gw1=WHOLE, lb1=lb1)
        assert (found["red"].verdict, found["blue.2"].verdict) == (verdict, Verdict.VERIFIED)


def test_a_path_that_differs_violates_the_vpcs_that_it_names_also_where_another_gateway_is_not_known():
    networks = replace(NETWORKS, gateways={"gw1": RUNS, "gw2": replace(RUNS, session=None)})
    found = verdicts(networks, gw1=replace(WHOLE, differing={"red": ("leak: …",)}, total=1))
    assert (found["red"].verdict, found["red"].why) == (Verdict.VIOLATED, ("leak: …",))
    assert found["blue.2"].verdict is Verdict.UNKNOWN


def test_findings_are_those_of_the_vpcs_that_they_name_and_of_all_where_they_name_none():
    between = Finding("leak", "vpc red, 10.1.0.5", "vpc blue.2, 10.2.0.5", "everything", "not peered")
    within = Finding("missing", "vpc red to 10.1.0.5", "10.1.0.5", "everything", "no such endpoint")
    public = Finding("leak", "the internet", "203.0.113.9", "everything", "NAT address")
    found = found_in([between, within, public], desired_of(NETWORKS), left_out=2)
    assert found.differing == {"red": (str(between), str(within), str(public)), "blue.2": (str(between), str(public))}
    assert (found.total, found.is_whole) == (5, False)
    assert all(len(texts) < MAX_FINDINGS for texts in found.differing.values())


def test_a_vpc_that_a_gateway_keeps_as_it_was_does_not_put_others_in_doubt():
    """Its installed NAT address, subnet and peering are no findings of others; a fault of theirs is still found."""
    red, blue = (
        replace(NETWORKS.vpcs[name], nat=IPv4Address(f"203.0.113.{n}")) for name, n in (("red", 8), ("blue.2", 9))
    )
    local = replace(LOCAL, interfaces=(*LOCAL.interfaces, OUTSIDE))
    before = replace(desired_of(NETWORKS).network, vpcs=(red, blue))
    tables = packed(compile_tables(local, before, neighbours={}, generation=1))

    def found(*vpcs, **kept):
        networks = replace(with_gateway(kept=kept), vpcs={vpc.id: vpc for vpc in vpcs})
        return verified(REQUEST._replace(networks=networks, tables=tables))

    moved = replace(red, nat=IPv4Address("203.0.113.10"))
    assert set(found(moved, blue).differing) == {"red"}
    assert found(moved, blue, red="as before").differing == {}
    assert set(found(moved, replace(blue, nat=None), red="as before").differing) == {"blue.2"}


def zipped(size):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("vpcs.npy", bytes(size))
    return file.getvalue()


@pytest.mark.parametrize("tables", [b"", b"no tables", zipped(10), packed(compile_tables(
    LOCAL, desired_of(NETWORKS).network, neighbours={}, generation=1))[:-40]])  # fmt: skip
def test_tables_that_cannot_be_read_are_no_verdict(tables):
    found = verified(REQUEST._replace(tables=tables))
    assert found.failure.startswith("its tables are inconsistent: ")
    assert not found.vpcs


def test_tables_that_would_fill_the_memory_are_not_unpacked(monkeypatch):
    monkeypatch.setattr("heddle.controller.runtime.isolation.verification.MAX_UNPACKED_BYTES", 1 << 20)
    assert "tables of more than 1 MiB" in verified(REQUEST._replace(tables=zipped((1 << 20) + 1))).failure
    assert MAX_UNPACKED_BYTES > 1 << 20


async def test_a_process_that_takes_too_long_is_ended_and_replaced():
    good = packed(compile_tables(LOCAL, desired_of(NETWORKS).network, neighbours={}, generation=1))
    verifier = Verifier(limit_s=0.01)
    try:
        assert "took longer than" in (await verifier.verify(REQUEST._replace(tables=good))).failure
        verifier.close()
        verifier = Verifier()
        for networks in (NETWORKS, replace(NETWORKS, vpcs={"red": NETWORKS.vpcs["red"]})):
            found = await verifier.verify(REQUEST._replace(networks=networks, tables=good))
            assert found.failure == ""
            assert found.vpcs == frozenset(networks.vpcs)
        assert {"leak"} == {text.split(":")[0] for text in found.differing["red"]}, "tables serve the former VPC"
    finally:
        verifier.close()
