"""The leaf of a NIC is the gateway of its routes, whatever other neighbours the NIC has; and is not guessed."""

import pytest

from heddle.probing.self_ping import next_hop_of

ARP = """\
IP address       HW type     Flags       HW address            Mask     Device
10.0.0.9         0x1         0x2         02:00:00:00:00:09     *        eth1
10.0.0.7         0x1         0x0         00:00:00:00:00:00     *        eth1
10.0.0.1         0x1         0x2         02:00:00:00:00:01     *        eth1
10.0.0.2         0x1         0x2         02:00:00:00:00:02     *        eth1
10.0.8.5         0x1         0x2         02:00:00:00:00:05     *        eth2
10.0.9.3         0x1         0x2         02:00:00:00:00:03     *        eth3
10.0.9.4         0x1         0x2         02:00:00:00:00:04     *        eth3
"""
ROUTE = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth1\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth1\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
eth4\t00000000\t0104000A\t0003\t0\t0\t0\t00000000\t0\t0\t0
"""


@pytest.mark.parametrize(
    ("device", "routes", "found"),
    [
        ("eth1", "", "020000000001"),
        ("eth1", "eth1\t0000010A\t0200000A\t0003\t0\t0\t0\t00FFFFFF\t0\t0\t0\n", None),
        ("eth2", "", "020000000005"),
        ("eth3", "", None),
        ("eth4", "", None),
        ("eth5", "", None),
    ],
    ids=["gateway", "two gateways", "one neighbour", "two neighbours", "unresolved gateway", "no neighbour"],
)
def test_the_next_hop_is_the_gateway_or_the_only_neighbour(tmp_path, device, routes, found):
    (tmp_path / "arp").write_text(ARP)
    (tmp_path / "route").write_text(ROUTE + routes)
    assert next_hop_of(device, tmp_path) == (bytes.fromhex(found) if found else None)
