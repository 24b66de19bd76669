"""The JSON of `rdma -j resource show cm_id`."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.foundation.kernel_port import cm_source_port
from heddle.telemetry.agent.sources.rdma_cm import CmConnection, NotCmIdsError, cm_connections


def entry(state, src, dst=None, **more):
    addresses = {"src-addr": src} | ({"dst-addr": dst} if dst else {})
    return {"ifindex": 0, "ifname": "rxe0", "port": 1, "state": state, "ps": "TCP", "pid": 9} | addresses | more


ACTIVE = entry("CONNECT", "10.0.0.1:45021", "10.0.0.2:4420", lqpn=18)
PASSIVE = entry("CONNECT", "10.0.0.2:4420", "10.0.0.1:45021", lqpn=25)
LISTENS = entry("LISTEN", "0.0.0.0:4420")
PORT = 0xC000 | ((45021 * 31 + 4420) & 0x3FFF) ^ (((45021 * 31 + 4420) & 0xFFFFF) >> 14)

# What iproute2 6.1 printed on two machines with soft RoCE (Linux 6.1.192) while rping and ib_write_bw -R ran, and the
# source ports that tcpdump saw from both to each of their queue pairs.
TARGET = """[{"ifindex":0,"ifname":"rxe0","cm-idn":0,"state":"LISTEN","ps":"TCP","pid":130,"comm":"rping",\
"src-addr":"0.0.0.0:18600"},{"ifindex":0,"ifname":"rxe0","port":1,"cm-idn":2,"lqpn":17,"qp-type":"RC",\
"state":"CONNECT","ps":"TCP","pid":130,"comm":"rping","src-addr":"10.9.0.1:18600","dst-addr":"10.9.0.2:42272"},\
{"ifindex":0,"ifname":"rxe0","port":1,"cm-idn":4,"lqpn":18,"qp-type":"RC","state":"CONNECT","ps":"TCP","pid":130,\
"comm":"rping","src-addr":"10.9.0.1:18600","dst-addr":"10.9.0.2:34472"},{"ifindex":0,"ifname":"rxe0","port":1,\
"cm-idn":3,"lqpn":19,"qp-type":"RC","state":"CONNECT","ps":"TCP","pid":131,"comm":"ib_write_bw",\
"src-addr":"10.9.0.1:18601","dst-addr":"10.9.0.2:34384"}]"""
INITIATOR = """[{"ifindex":0,"ifname":"rxe0","port":1,"cm-idn":0,"lqpn":17,"qp-type":"RC","state":"CONNECT",\
"ps":"TCP","pid":139,"comm":"rping","src-addr":"10.9.0.2:34472","dst-addr":"10.9.0.1:18600"},\
{"ifindex":0,"ifname":"rxe0","port":1,"cm-idn":1,"lqpn":18,"qp-type":"RC","state":"CONNECT","ps":"TCP","pid":138,\
"comm":"rping","src-addr":"10.9.0.2:42272","dst-addr":"10.9.0.1:18600"},{"ifindex":0,"ifname":"rxe0","port":1,\
"cm-idn":2,"lqpn":19,"qp-type":"RC","state":"CONNECT","ps":"TCP","pid":140,"comm":"ib_write_bw",\
"src-addr":"10.9.0.2:34384","dst-addr":"10.9.0.1:18601"}]"""


def connections(*entries):
    return cm_connections(json.dumps(entries))


def test_the_ports_are_those_on_the_wire_at_both_ends():
    assert {number: found.udp_source_port for (_, number), found in cm_connections(INITIATOR).items() if found} == {
        17: 55042,
        18: 51097,
        19: 52315,
    }
    assert cm_connections(TARGET) == {
        ("rxe0", 17): CmConnection("10.9.0.1", "10.9.0.2", 51097),
        ("rxe0", 18): CmConnection("10.9.0.1", "10.9.0.2", 55042),
        ("rxe0", 19): CmConnection("10.9.0.1", "10.9.0.2", 52315),  # its listener is closed
    }


def test_the_connecting_end_has_its_ports_as_listed():
    assert connections(ACTIVE) == {("rxe0", 18): CmConnection("10.0.0.1", "10.0.0.2", PORT)}


@pytest.mark.parametrize("listens", ["0.0.0.0:4420", "10.0.0.2:4420", ":::4420", "::ffff:10.0.0.2:4420"])
@pytest.mark.parametrize("service", [4420, 45100], ids=["low", "ephemeral"])
def test_the_end_whose_own_port_has_a_listener_exchanges_its_ports(listens, service):
    passive = PASSIVE | {"src-addr": f"10.0.0.2:{service}"}
    found = connections(entry("LISTEN", listens.replace("4420", str(service))), passive)
    assert found == {("rxe0", 25): CmConnection("10.0.0.2", "10.0.0.1", cm_source_port(45021, service))}


@pytest.mark.parametrize(
    ("own", "peer", "ports"),
    [
        (4420, 45021, (45021, 4420)),
        (4420, 32768, (32768, 4420)),
        (4420, 61000, (4420, 61000)),
        (45021, 60999, (45021, 60999)),
        (1023, 987, (1023, 987)),
    ],
)
def test_without_a_listener_an_ephemeral_port_is_that_of_the_connecting_end(own, peer, ports):
    found = connections(entry("CONNECT", f"10.0.0.1:{own}", f"10.0.0.2:{peer}", lqpn=18))
    assert found["rxe0", 18].udp_source_port == cm_source_port(*ports)


@pytest.mark.parametrize(
    "other",
    [
        entry("LISTEN", "0.0.0.0:4421"),
        entry("LISTEN", "10.0.0.9:45021"),
        entry("LISTEN", "0.0.0.0:45021", ps="UDP"),
        entry("ADDR_BOUND", "0.0.0.0:45021"),
        entry("LISTEN", "0.0.0.0:4420"),
    ],
    ids=["another port", "another address", "another port space", "no listener", "the peer's port"],
)
def test_a_listener_of_something_else_makes_no_end_passive(other):
    assert connections(other, ACTIVE)["rxe0", 18].udp_source_port == PORT


def test_both_ends_on_one_host_have_one_port():
    found = connections(ACTIVE, LISTENS, PASSIVE)
    assert {each.udp_source_port for each in found.values()} == {PORT}
    assert len(found) == 2


def test_what_is_not_connected_is_left_out():
    assert (
        connections(LISTENS, ACTIVE | {"state": "DISCONNECT"}, entry("ROUTE_QUERY", "10.0.0.1:7", "10.0.0.2:8")) == {}
    )


def test_a_connection_over_ipv6_has_no_port_and_a_mapped_one_has():
    over_ipv6 = ACTIVE | {"src-addr": "fe80::1:45021", "dst-addr": "fe80::2:4420"}
    mapped = ACTIVE | {"src-addr": "::ffff:10.0.0.1:45021", "dst-addr": "::ffff:10.0.0.2:4420", "lqpn": 19}
    assert connections(over_ipv6, mapped) == {
        ("rxe0", 18): None,
        ("rxe0", 19): CmConnection("10.0.0.1", "10.0.0.2", PORT),
    }


@pytest.mark.parametrize(
    "change",
    [
        {"lqpn": 0},
        {"lqpn": "18"},
        {"lqpn": 1 << 24},
        {"ifname": None},
        {"src-addr": None},
        {"src-addr": "10.0.0.1"},
        {"src-addr": "10.0.0.1:65536"},
        {"src-addr": "10.0.0.1:"},
        {"dst-addr": "10.0.0.256:1"},
        {"dst-addr": 7},
    ],
)
def test_a_connection_without_number_or_addresses_is_an_error(change):
    with pytest.raises(NotCmIdsError):
        connections(ACTIVE | change)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["CONNECT", "LISTEN", "10.0.0.1:7", "TCP", "rxe0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(ACTIVE)), inner, max_size=7),
)


@given(json_values.map(json.dumps) | st.text(max_size=20) | st.just('[["ifindex":0,"ifname":"rxe0"]]'))
def test_any_other_text_is_an_error_or_lists_numbers_in_range(text):
    try:
        found = cm_connections(text)
    except NotCmIdsError:
        return
    assert all(0 < number < 1 << 24 for _, number in found)
