"""The gateway file and the network file: their values, and that every error names file, key and remedy."""

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest
import yaml

from heddle.controller.config.gateways.gateway_file import load_gateway, printed
from heddle.controller.config.network_file import load_network, load_objects
from heddle.controller.model.error import InputError
from heddle.dataplane.config.local import Limits, Side, Timeouts
from heddle.dataplane.config.network import Direction, Peering, Protocol
from heddle.dataplane.config.pair import Mode
from heddle.dataplane.config.wire_balancers import load_balancer_from
from heddle.foundation.network import Network

SOUND: dict[str, Any] = {
    "gateway_id": "gw1",
    "interfaces": [
        {"name": "u0", "side": "underlay", "mac": "02:00:00:00:00:01", "address": "192.0.2.1", "mtu_bytes": 4300},
        {"name": "x0", "side": "external", "mac": "02:00:00:00:00:02", "address": "198.51.100.1",
         "network": "198.51.100.0/24", "router": "198.51.100.254"},
    ],
}  # fmt: skip


def written(folder: Path, content: object, name: str = "gw.yaml") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def refusal(folder: Path, content: object) -> str:
    with pytest.raises(InputError) as refused:
        load_gateway(written(folder, content))
    return str(refused.value).replace(f"{folder}/", "")


def test_a_short_file_is_enough_and_defaults_are_those_of_the_values(tmp_path: Path) -> None:
    found = load_gateway(written(tmp_path, SOUND))
    under, out = found.local.interfaces
    assert (under.name, under.side, under.mac, under.mtu_bytes) == ("u0", Side.UNDERLAY, 0x020000000001, 4300)
    assert (out.network, out.router) == (IPv4Network("198.51.100.0/24"), IPv4Address("198.51.100.254"))
    assert (found.local.limits, found.local.timeouts) == (Limits(), Timeouts())
    assert (found.backend, found.controller, found.partner) == ("auto", None, None)


def test_every_key_can_be_set(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a secret of many letters\n")
    more = {
        "provider_networks": [{"network": "storage", "prefixes": ["10.200.0.0/16", "fd00:2::/32"]}],
        "interfaces": [*SOUND["interfaces"], {"name": "p0", "side": "provider", "mac": "02:00:00:00:00:03",
                                              "address": "172.31.0.2"}],
        "nat_ports": {"first": 1024, "last": 32767},
        "limits": {"connections": 1024},
        "timeouts": {"udp_s": 400},
        "controller": "127.0.0.1:50051",
        "partner": {
            "partner_id": "gw2",
            "mode": "active-active",
            "paths": [{"listen": "10.0.0.1:4790", "partner": "10.0.0.2:4790"}],
            "takes_over": [{"interface": "u0", "address": "192.0.2.2"}],
            "key_file": str(tmp_path / "key"),
        },
        "busy_poll": True,
        "cpu": 1,
        "receive_frames": 4096,
    }  # fmt: skip
    found = load_gateway(written(tmp_path, {**SOUND, **more}))
    assert found.local.provider_networks[0].realm is Network.STORAGE
    assert (found.local.nat_ports.last, found.local.limits.connections, found.local.timeouts.udp_s) == (
        32767,
        1024,
        400,
    )
    assert found.partner is not None
    assert (found.partner.mode, found.partner.key) == (Mode.ACTIVE_ACTIVE, b"a secret of many letters")
    assert found.partner.takes_over == (("u0", IPv4Address("192.0.2.2")),)
    assert (found.controller, found.busy_poll, found.cpu) == ("127.0.0.1:50051", True, 1)
    assert found.local.receive_frames == 4096


def test_the_printed_file_is_sound_once_it_names_real_interfaces(tmp_path: Path) -> None:
    text = printed().replace("mac: null", 'mac: "02:00:00:00:00:01"').replace("address: null", "address: 192.0.2.1")
    found = load_gateway(written(tmp_path, text))
    assert (found.local.limits, found.local.timeouts) == (Limits(), Timeouts())


def test_the_printed_file_documents_every_key() -> None:
    described = printed().replace("# ", "").replace("- ", "")
    for key in ("gateway_id", "side", "mtu_bytes", "provider_networks", "prefixes", "connections", "udp_s", "partner",
                "paths", "listen", "takes_over", "key_file", "metrics", "backend", "cpu",
                "receive_frames"):  # fmt: skip
        assert f"{key}:" in described, key


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"gatway_id": "x"}, "gw.yaml: gatway_id: unknown key, did you mean gateway_id?"),
        ({"interfaces": []}, "gw.yaml: interfaces: must not be empty"),
        ({"interfaces": [SOUND["interfaces"][1]]},
         "gw.yaml: interfaces: none is of the underlay; VXLAN packets come and go there"),
        ({"interfaces": [{**SOUND["interfaces"][0], "address": "192.0.2.300"}]},
         "gw.yaml: interfaces[0].address: '192.0.2.300' is not an IPv4 address such as 192.0.2.1"),
        ({"interfaces": [{**SOUND["interfaces"][0], "side": "upside"}]},
         "gw.yaml: interfaces[0].side: must be one of underlay, external, customer, provider, is 'upside'"),
        ({"interfaces": [{"name": "missing0", "side": "underlay", "address": "192.0.2.1"}]},
         "gw.yaml: interfaces[0].name: there is no network device 'missing0' here; `ip link` lists them"),
        ({"interfaces": [{**SOUND["interfaces"][0], "network": "192.0.3.0/24"}]},
         "gw.yaml: interface u0: address: 192.0.2.1 is not in 192.0.3.0/24, the interface's network; correct one of "
         "them"),
        ({"interfaces": [{**SOUND["interfaces"][0], "network": "192.0.2.0/24", "router": "192.0.2.1"}]},
         "gw.yaml: interface u0: router: 192.0.2.1 is the interface's own address; name that of the next hop"),
        ({"interfaces": [{**SOUND["interfaces"][0], "network": "192.0.2.0/24", "router": "192.0.2.255"}]},
         "gw.yaml: interface u0: router: 192.0.2.255 is the network's or broadcast address of 192.0.2.0/24"),
        ({"partner": {"partner_id": "gw2", "paths": [{"listen": "10.0.0.1:1", "partner": "10.0.0.2:1"}],
                      "takes_over": [{"interface": "u0", "address": "192.0.2.2"},
                                     {"interface": "x0", "address": "198.51.101.2"}]}},
         "gw.yaml: partner.takes_over[1].address: 198.51.101.2 is not in 198.51.100.0/24, the network of x0"),
        ({"limits": {"connections": 1000}},
         "gw.yaml: limits.connections: 1000 is no power of two from 2 to 16777216"),
        ({"receive_frames": 5000}, "gw.yaml: receive_frames: 5000 is no power of two from 256 to 65536"),
        ({"receive_frames": 1 << 17}, "gw.yaml: receive_frames: 131072 is no power of two from 256 to 65536"),
        ({"nat_ports": {"first": 5, "last": 4}},
         "gw.yaml: nat_ports: 5 to 4 is no range of ports within 1 to 65535"),
        ({"metrics": "localhost"}, "gw.yaml: metrics: 'localhost' is not ADDR:PORT such as 127.0.0.1:50051"),
        ({"partner": {"partner_id": "gw2", "paths": [{"listen": "10.0.0.1:1", "partner": "10.0.0.2:1"}],
                      "takes_over": [{"interface": "u9", "address": "192.0.2.2"}]}},
         "gw.yaml: partner.takes_over[0].interface: 'u9' is none of the interfaces, u0, x0"),
    ],
)  # fmt: skip
def test_an_error_names_file_key_and_remedy(tmp_path: Path, change: dict, line: str) -> None:
    assert refusal(tmp_path, {**SOUND, **change}).splitlines()[0] == line


NETWORK: dict[str, Any] = {
    "vpcs": [
        {"id": "red", "vni": 100, "subnets": [{"cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.1"}],
         "endpoints": [{"ip": "10.0.0.5", "mac": "02:00:00:00:01:05", "vtep_ip": "192.0.2.5"}],
         "security_rules": [{"allow": True, "direction": "in", "protocol": "tcp", "remote_cidr": "0.0.0.0/0",
                             "port_min": 22, "port_max": 22}],
         "nat": {"public_ip": "198.51.100.10"}},
        {"id": "blue", "vni": 200, "subnets": [{"cidr": "10.1.0.0/24", "gateway_ip": "10.1.0.1"}]},
    ],
    "peerings": [{"vpc_a": "red", "vpc_b": "blue"}],
    "border": [{"allow": True, "vpc": "red", "network": "storage", "remote_cidr": "10.200.0.0/16", "protocol": "tcp",
                "port_min": 443, "port_max": 443}],
}  # fmt: skip


def test_a_network_file_has_the_keys_of_the_contracts_messages(tmp_path: Path) -> None:
    found = load_network(written(tmp_path, NETWORK))
    red, blue = found.vpcs
    assert (red.vni, red.nat, blue.id) == (100, IPv4Address("198.51.100.10"), "blue")
    assert (red.rules[0].direction, red.rules[0].protocol, red.rules[0].port_max) == (Direction.IN, Protocol.TCP, 22)
    assert found.peerings == {Peering(a="blue", b="red")}
    assert found.border[0].realm is Network.STORAGE


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (
            "vni: 7",
            "vni: 0100",
            "vpcs[0].vni: must be a whole number, is '0100'; leave out the zeros before it, by which",
        ),
        ("port_min: 22", "port_min: 022", "vpcs[0].security_rules[0].port_min: must be a whole number, is '022'"),
        ("vlan: 012", "vlan: 011", "vpcs[0].direct_connects[0].vlan: must be a whole number, is '011'"),
    ],
)
def test_numbers_with_zeros_before_them_are_refused_with_their_place(tmp_path, before, after, line):
    text = "vpcs: [{id: red, vni: 7, security_rules: [{port_min: 22}], direct_connects: [{vlan: 012}]}]"
    path = tmp_path / "net.yaml"
    path.write_text(text.replace(before, after))
    with pytest.raises(InputError) as caught:
        load_network(path)
    assert any(problem.startswith(f"{path}: {line}") for problem in caught.value.problems)


def test_a_weight_of_0_in_a_file_is_no_absent_one(tmp_path: Path) -> None:
    service = {"id": "web", "vpc_id": "red", "vip": "10.0.0.80", "port": 80,
               "backends": [{"ip": "10.0.0.5", "weight": 0}, {"ip": "10.0.0.6"}]}  # fmt: skip
    (sent,) = load_objects(written(tmp_path, {"load_balancers": [service]})).load_balancers
    assert [end.weight for end in load_balancer_from(sent).back_ends] == [0, 1]


def test_objects_for_a_controller_need_not_be_whole_and_those_of_a_gateway_alone_must(tmp_path: Path) -> None:
    path = written(tmp_path, {"peerings": NETWORK["peerings"], "border": []})
    found = load_objects(path)
    assert (len(found.vpcs), len(found.peerings), found.HasField("border")) == (0, 1, True)
    assert not load_objects(written(tmp_path, {"peerings": []})).HasField("border")
    with pytest.raises(InputError, match="there is no vpc 'blue'"):
        load_network(written(tmp_path, {"peerings": NETWORK["peerings"]}))


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ({"vcps": []}, "net.yaml: vcps: unknown key, did you mean vpcs?"),
        ({"vpcs": {}}, "net.yaml: vpcs: must be a list, is a mapping"),
        ({"vpcs": [7]}, "net.yaml: vpcs[0]: must be a mapping, is 7"),
        ({"vpcs": [{"id": "red", "vnni": 7}]}, "net.yaml: vpcs[0]: "),
        ({"vpcs": [{"id": "red", "vni": 0}]}, "vni: 0 is not within 1 to"),
        ({"vpcs": [NETWORK["vpcs"][0], NETWORK["vpcs"][0]]}, "vpc red: id: used twice"),
    ],
)
def test_a_network_file_that_is_unsound_is_refused_in_one_line(tmp_path: Path, content: dict, part: str) -> None:
    with pytest.raises(InputError) as refused:
        load_network(written(tmp_path, content, "net.yaml"))
    (line,) = str(refused.value).splitlines()
    assert part in line
    assert "heddle.v1" not in line


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (b"\0" * 32, "32 zero bytes are no secret"),
        (b"k" * 4_097, "larger than 4,096 bytes, the most that is read"),
        (None, "no regular file"),
    ],
)
def test_a_key_file_without_a_secret_or_without_an_end_is_refused(tmp_path: Path, key: bytes | None, why: str) -> None:
    path = Path("/dev/zero") if key is None else tmp_path / "key"
    if key is not None:
        path.write_bytes(key)
    partner = {
        "partner_id": "gw2",
        "paths": [{"listen": "10.0.0.1:4790", "partner": "10.0.0.2:4790"}],
        "key_file": str(path),
    }
    line = refusal(tmp_path, {**SOUND, "partner": partner})
    assert line.startswith("gw.yaml: partner.key_file: ")
    assert line.endswith(f": {why}")
