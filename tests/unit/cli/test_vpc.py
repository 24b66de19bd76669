"""`heddle vpc …` and `heddle verify isolation`, on a running controller and a gateway that compiles its tables."""

import json
import time
from ipaddress import IPv4Address, ip_network
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest

from heddle.dataplane.config.local import Interface, LocalConfig, ProviderNetwork, Side
from heddle.foundation.network import Network
from heddle.programs.console.vpc import deviations
from heddle.programs.gateway.status_lines import deviation_lines
from heddle.v1 import heddle_pb2 as pb
from tests.fakes.gateway.compiling_gateway import CompilingGateway
from tests.fakes.gateway.gateway_session import GatewaySession
from tests.support.controllers.served_controller import served

EXAMPLE = Path(__file__).parents[3] / "examples" / "vpc.yaml"
NETWORK = """
vpcs:
  - id: blue
    tenant: t1
    vni: 100
    subnets: [{cidr: 10.1.0.0/24, gateway_ip: 10.1.0.1}]
    endpoints: [{ip: 10.1.0.5, mac: "02:00:00:00:00:05", vtep_ip: 10.0.0.1}]
  - id: red
    vni: 200
    subnets: [{cidr: 10.2.0.0/24, gateway_ip: 10.2.0.1}]
    endpoints: [{ip: 10.2.0.5, mac: "02:00:00:00:00:05", vtep_ip: 10.0.0.2}]
    security_rules: [{allow: true, direction: in, protocol: tcp, remote_cidr: 10.1.0.0/24, port_min: 80, port_max: 80}]
peerings: [{vpc_a: blue, vpc_b: red}]
border: [{allow: true, vpc: blue, network: storage, remote_cidr: 10.200.1.0/24, protocol: tcp}]
"""
LOCAL = LocalConfig(
    gateway_id="gw1",
    interfaces=(
        Interface(name="u", side=Side.UNDERLAY, mac=0x0200_0000_0001, address=IPv4Address("10.0.0.100")),
        Interface(name="p", side=Side.PROVIDER, mac=0x0200_0000_0002, address=IPv4Address("10.200.0.1")),
    ),
    provider_networks=(ProviderNetwork(realm=Network.STORAGE, prefixes=(ip_network("10.200.0.0/16"),)),),
)


@pytest.fixture
def controller():
    with served() as found:
        yield found


@pytest.fixture
def run(heddle, controller):
    def call(*arguments):
        return heddle(*arguments, "--server", controller.grpc)

    return call


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tenants.yaml"
    path.write_text(NETWORK)
    return path


def test_a_file_is_applied_listed_changed_and_deleted(run, file):
    status, out, err = run("vpc", "apply", file)
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "vpc blue: VNI 100, 1 endpoints",
        "vpc red: VNI 200, 1 endpoints",
        "peering blue with red",
        "border: 1 rules",
    ]
    listed = json.loads(run("vpc", "list", "--json")[1])
    assert [vpc["id"] for vpc in listed["vpcs"]] == ["blue", "red"]
    assert listed["peerings"] == [{"vpc_a": "blue", "vpc_b": "red"}]
    assert json.loads(run("vpc", "list", "--tenant", "t1", "--json")[1])["vpcs"][0]["id"] == "blue"
    assert "10.2.0.0/24" in run("vpc", "list")[1]
    assert "10.200.1.0/24" in run("vpc", "border")[1]
    assert run("vpc", "delete", "red") == (1, "", "heddle: vpc red is peered with blue; delete its peerings first\n")
    assert run("vpc", "unpeer", "red", "blue")[0] == 0
    assert run("vpc", "delete", "red")[:2] == (0, "vpc red: deleted\n")
    status, _, err = run("vpc", "delete", "red")
    assert (status, err) == (2, "heddle: id: there is no vpc 'red'\n")


def test_json_lists_what_was_applied(run, file):
    listed = json.loads(run("vpc", "apply", file, "--json")[1])
    assert [vpc["vni"] for vpc in listed["vpcs"]] == [100, 200]
    assert listed["peerings"] == [{"vpc_a": "blue", "vpc_b": "red"}]
    assert listed["border"][0]["network"] == "storage"


SERVICE = """
version: 1
load_balancers:
  - id: web
    tenant: t1
    vpc_id: blue
    vip: 10.1.0.100
    port: 80
    backends: [{ip: 10.1.0.5, weight: 3}]
"""


def test_a_floating_ip_to_a_virtual_ip_of_the_same_file_follows_it(run, file):
    floating = "    floating_ips: [{public_ip: 203.0.113.9, endpoint_ip: 10.1.0.100}]\n  - id: red"
    file.write_text(NETWORK.replace("  - id: red", floating) + SERVICE.replace("version: 1", ""))
    for _ in range(2):
        assert len(run("vpc", "apply", file)[1].splitlines()) == 5
        listed = json.loads(run("vpc", "list", "--json")[1])
        assert listed["vpcs"][0]["floating_ips"] == [{"public_ip": "203.0.113.9", "endpoint_ip": "10.1.0.100"}]
    assert "is needed: vpc blue: floating_ips[0]" in run("vpc", "delete-balancer", "web")[2]


def test_load_balancers_of_a_file_are_applied_listed_and_deleted(run, file):
    file.write_text(NETWORK + SERVICE.replace("version: 1", ""))
    assert run("vpc", "apply", file)[1].splitlines()[3] == "load balancer web: 10.1.0.100 port 80"
    (listed,) = json.loads(run("vpc", "balancers", "--json")[1])["load_balancers"]
    assert (listed["id"], listed["vip"], listed["backends"][0]["weight"]) == ("web", "10.1.0.100", 3)
    assert "10.1.0.5 port 80 (weight 3)" in run("vpc", "balancers")[1].replace("\n", " ")
    assert run("vpc", "delete", "red")[2].startswith("heddle: vpc red is peered")
    assert run("vpc", "delete-balancer", "web") == (0, "load balancer web: deleted\n", "")
    assert run("vpc", "delete-balancer", "web")[0] == 2
    assert "there are no load balancers" in run("vpc", "balancers")[1]


def test_a_file_with_a_wrong_load_balancer_is_refused_before_anything_is_applied(run, file):
    file.write_text(NETWORK + SERVICE.replace("version: 1", "").replace("10.1.0.5", "10.1.0.100"))
    status, out, err = run("vpc", "apply", file)
    assert (status, out) == (2, "")
    assert "load balancer web: backends[0].ip: 10.1.0.100 is the virtual IP itself" in err
    assert "there are no VPCs" in run("vpc", "list")[1]


MORE = """
  - id: late
    vni: 300
    nat: {public_ip: 203.0.113.70}
"""


def test_a_file_whose_last_object_conflicts_with_the_controllers_leaves_all_as_it_was(run, file, tmp_path):
    assert run("vpc", "apply", file)[0] == 0
    before = run("vpc", "list", "--json")
    other = tmp_path / "other.yaml"
    other.write_text("vpcs:\n  - {id: blue, vni: 101, tenant: t1}" + MORE.replace("300", "200"))
    assert run("vpc", "apply", other) == (2, "", "heddle: vpc late: vni: 200 is used by vpc red already\n")
    assert run("vpc", "list", "--json") == before


PARTS = {
    "peerings: [{vpc_a: blue, vpc_b: late}]": "peering blue with late",
    "border: [{allow: true, vpc: late, network: storage, remote_cidr: 10.9.0.0/16}]": "border: 1 rules",
    "load_balancers: [{id: dns, vpc_id: blue, vip: 10.1.0.90, port: 53, backends: [{ip: 10.1.0.5}]}]":
        "load balancer dns: 10.1.0.90 port 53",
    "vpcs: [{id: late, vni: 301, nat: {public_ip: 203.0.113.70}}]": "vpc late: VNI 301, 0 endpoints",
}  # fmt: skip


def test_a_part_of_a_network_is_checked_against_what_the_controller_has(run, file):
    file.write_text(NETWORK.replace("peerings: [{", f"{MORE[1:]}peerings: [{{"))
    assert run("vpc", "apply", file)[0] == 0
    for text, line in PARTS.items():
        file.write_text(text)
        assert run("vpc", "apply", file) == (0, f"{line}\n", "")
        file.write_text(text.replace("late", "lote").replace("blue", "blu").replace("301", "100"))
        status, out, err = run("vpc", "apply", file)
        assert (status, out) == (2, "")
        assert all(each.startswith("heddle: ") for each in err.splitlines())
    file.write_text("vpcs: []")
    assert run("vpc", "apply", file) == (0, "", "")


def test_a_mistyped_vpc_in_a_second_peering_is_one_line(run, file):
    file.write_text(NETWORK.replace("vpc_b: red}]", "vpc_b: red}, {vpc_a: blue, vpc_b: rde}, {vpc_a: red, vpc_b: ''}]"))
    assert run("vpc", "apply", file) == (
        2,
        "",
        "heddle: peering  with red: vpc_a: there is no vpc ''\n"
        "heddle: peering blue with rde: vpc_b: there is no vpc 'rde'\n",
    )
    assert "there are no VPCs" in run("vpc", "list")[1]


def test_a_host_that_is_away_is_listed_and_named_when_a_file_changes_what_it_has(run, file, controller):
    run("vpc", "apply", file)
    host = controller.run(_host(controller))
    while json.loads(run("vpc", "gateways", "--json")[1])["gateways"] == []:
        pass
    controller.run(host.close())
    while json.loads(run("vpc", "gateways", "--json")[1])["gateways"][0]["attached"]:
        pass
    assert "AWAY" in run("vpc", "gateways")[1]
    file.write_text(NETWORK.replace("vni: 200", "vni: 201"))
    status, out, err = run("vpc", "apply", file)
    assert (status, len(out.splitlines())) == (0, 4)
    assert err == "heddle: not attached: h2 (VTEP 10.0.0.2); what changed is sent when they attach\n"
    listed = json.loads(run("vpc", "apply", file, "--json")[1])
    assert listed["away"] == [{"gateway_id": "h2", "vtep_ip": "10.0.0.2"}]
    assert run("vpc", "forget", "h2") == (0, "gateway h2: forgotten\n", "")


async def _host(controller):
    channel = grpc.aio.insecure_channel(controller.grpc)
    session = GatewaySession(channel, "h2", "10.0.0.2", "host")
    return SimpleNamespace(close=lambda: _closed(session, channel))


async def _closed(session, channel):
    await session.close()
    await channel.close()


def test_a_flow_to_a_virtual_ip_is_explained_only_with_its_client(run):
    assert run("explain", "--vip", "blue/10.1.0.100:80")[0] == 2
    status, _, err = run("explain", "--vip", "blue/10.1.0.100", "--from", "10.1.0.5:1")
    assert (status, "is not VPC/VIP:PORT" in err) == (2, True)
    status, _, err = run("explain", "--vip", "blue/10.1.0.100:80", "--from", "10.1.0.5:1")
    assert (status, err) == (2, "heddle: no balancer is attached\n")


def test_a_peering_to_an_unknown_vpc_is_one_line_and_exit_status_2(run, file):
    run("vpc", "apply", file)
    status, out, err = run("vpc", "peer", "blue", "none")
    assert (status, out) == (2, "")
    assert err == "heddle: peering blue with none: vpc_b: there is no vpc 'none'\n"


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_vteps_of_another_fabric_are_one_line_with_the_remedy(run, options):
    status, out, err = run("vpc", "apply", str(EXAMPLE), *options)
    assert (status, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("heddle: vpc red: endpoints[0].vtep_ip: 192.168.100.1 is no VTEP that this controller knows")
    assert "its config key `vteps`" in line


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_each_problem_that_a_controller_finds_is_a_line(run, tmp_path, options):
    path = tmp_path / "more.yaml"
    connect = "direct_connects: [{vlan: 7, customer_cidr: 172.30.0.0/16, next_hop_ip: 192.168.0.1}]"
    path.write_text(f"vpcs:\n  - {{id: one, vni: 300, {connect}}}\n")
    run("vpc", "apply", str(path))
    path.write_text(f"vpcs:\n  - {{id: two, vni: 300, {connect}}}\n")
    assert run("vpc", "apply", str(path), *options) == (
        2,
        "",
        "heddle: vpc two: vni: 300 is used by vpc one already\n"
        "heddle: vpc two: direct_connects[0].vlan: 7 is used by vpc one already\n",
    )


def test_gateways_are_listed_with_what_they_run(run, file, controller):
    assert "no gateway has attached" in run("vpc", "gateways")[1]
    run("vpc", "apply", file)
    gateway = controller.run(_attached(controller, LOCAL))
    try:
        controller.run(gateway.applied.wait())
        listed = json.loads(run("vpc", "gateways", "--json")[1])
        assert [each["hello"]["gateway_id"] for each in listed["gateways"]] == ["gw1"]
        assert "gw1" in run("vpc", "gateways")[1]
        assert run("vpc", "forget", "gw1")[0] == 1
    finally:
        controller.run(gateway.close())
    while json.loads(run("vpc", "gateways", "--json")[1])["gateways"][0]["attached"]:
        pass
    assert run("vpc", "forget", "gw1") == (0, "gateway gw1: forgotten\n", "")
    assert run("vpc", "forget", "gw1") == (2, "", "heddle: gateway_id: there is no gateway 'gw1'\n")


def test_a_controller_that_knows_no_network_calls_no_state_the_newest(run, file, controller):
    gateway = controller.run(_attached(controller, LOCAL, generation=77))
    try:
        while "gw1" not in (listed := run("vpc", "gateways")[1]):
            pass
        assert "newest" not in listed
        assert "unknown" in listed
        run("vpc", "apply", file)
        assert "newest" in run("vpc", "gateways")[1]
    finally:
        controller.run(gateway.close())


def test_what_a_gateway_does_not_serve_as_wanted_and_what_the_controller_does_not_know_are_lines():
    kept = pb.KeptVpc(vpc_id="blue", why="its state of before stays in force: no room")
    status = pb.GatewayStatus(
        hello=pb.GatewayHello(gateway_id="gw1"), kept_vpcs=[kept], unknown_vpcs=[f"old{n}" for n in range(23)]
    )
    first = ", ".join(f"old{n}" for n in range(20))
    assert list(deviations(status)) == [
        "gw1: vpc blue: its state of before stays in force: no room",
        f"gw1: serves VPCs that this controller does not know, and keeps them: {first} and 3 more",
    ]
    shown = {"kept_vpcs": {"blue": "as before"}, "unknown_vpcs": ["old1", "old2"]}
    assert list(deviation_lines(shown)) == [
        "vpc blue: as before",
        "VPCs that the controller does not know, and that stay in force: old1, old2",
    ]


def test_vpcs_that_the_controller_does_not_know_end_with_a_flag(run, file):
    status, out, err = run("vpc", "apply", file, "--drop-unknown")
    assert (status, err) == (0, "")
    assert out.splitlines()[-1] == "VPCs that the controller does not know: ended at all gateways"


async def _attached(controller, local, **options):
    return CompilingGateway(controller.grpc, local, **options)


def _with_a_wrong_route(tables):
    """Let everything that blue discards go to the storage network."""
    hop = int((tables.next_hops["kind"] == 5).nonzero()[0][0])  # PROVIDER
    discard = int((tables.next_hops["kind"] == 0).nonzero()[0][0])
    tables.routes[tables.routes[:, -1] == discard, -1] = hop
    return tables


@pytest.mark.parametrize(("spoil", "expected"), [(lambda tables: tables, 0), (_with_a_wrong_route, 1)])
def test_installed_tables_are_verified_through_the_controller(run, file, controller, spoil, expected):
    assert run("verify", "isolation")[0] == 2  # no gateway has attached
    run("vpc", "apply", file)
    gateway = controller.run(_attached(controller, LOCAL, spoil=spoil))
    try:
        controller.run(gateway.applied.wait())
        run("vpc", "apply", file)  # returns when the gateway has acknowledged
        status, out, err = run("verify", "isolation")
        assert (status, err) == (expected, ""), out
        report = json.loads(run("verify", "isolation", "--json")[1])
        assert report["sound"] is (expected == 0)
        assert report["gateways"]["gw1"]["networks"]["business"]["management"] == 0
        if expected:
            assert "leak: vpc blue to the provider's storage network" in out
            assert "no intent allows it" in out
    finally:
        controller.run(gateway.close())


def test_the_controller_verifies_the_tables_itself_and_lists_its_verdict(run, file, controller):
    controller.application.isolation.settle_s = 0.05
    run("vpc", "apply", file)
    assert verdicts(run) == {"blue": "unknown", "red": "unknown"}
    assert "unknown: no gateway has attached" in run("vpc", "list")[1]
    gateway = controller.run(_attached(controller, LOCAL))
    try:
        until(lambda: verdicts(run) == {"blue": "verified", "red": "verified"})
        (blue, _) = json.loads(run("vpc", "list", "--json")[1])["isolation"]
        assert (blue["why"], blue["is_newest"], int(blue["checked_unix_ms"]) > 0) == ([], True, True)
        gateway.spoil(_with_a_wrong_route)
        file.write_text(file.read_text().replace("remote_cidr: 10.200.1.0/24", "remote_cidr: 10.200.2.0/24"))
        run("vpc", "apply", file)
        until(lambda: verdicts(run)["blue"] == "violated")
        assert "violated: leak: vpc blue to the provider's storage network" in run("vpc", "list")[1].replace("\n", " ")
    finally:
        controller.run(gateway.close())
    until(lambda: set(verdicts(run).values()) <= {"unknown", "violated"})


def verdicts(run):
    return {each["vpc_id"]: each["verdict"] for each in json.loads(run("vpc", "list", "--json")[1])["isolation"]}


def until(holds):
    ends = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.05)


GATEWAY = """
gateway_id: gw1
interfaces:
  - {name: u0, side: underlay, mac: "02:00:00:00:00:01", address: 10.0.0.100, network: 10.0.0.0/24}
  - {name: p0, side: provider, mac: "02:00:00:00:00:02", address: 10.200.0.1, network: 10.200.0.0/24}
provider_networks: [{network: storage, prefixes: [10.200.0.0/16]}]
"""


def test_files_are_verified_offline_and_kept_tables_with_them(heddle, file, tmp_path):
    config, tables, fewer = tmp_path / "gw.yaml", tmp_path / "tables.npz", tmp_path / "fewer.yaml"
    config.write_text(GATEWAY)
    fewer.write_text(NETWORK.replace("peerings: [{vpc_a: blue, vpc_b: red}]", ""))
    status, out, err = heddle("verify", "isolation", "--config", config, "--network", file, "--save-tables", tables)
    assert (status, err) == (0, "")
    assert "exactly the intended paths" in out
    status, out, _ = heddle("verify", "isolation", "--config", config, "--network", fewer, "--tables", tables)
    assert status == 1
    assert "leak: vpc blue to vpc red" in out


@pytest.mark.parametrize("options", [("--config", "gw.yaml"), ("--network", "n.yaml"), ("--tables", "t.npz")])
def test_incomplete_offline_options_are_one_line_and_exit_status_2(heddle, options):
    status, out, err = heddle("verify", "isolation", *options)
    assert (status, out) == (2, "")
    assert err == "heddle: offline, both --config FILE (the gateway) and --network FILE are needed\n"
