"""NICs of a host: a fake tree of /sys, and this machine's loopback and veths."""

import os
import shutil
import socket
import subprocess

import pytest

from heddle.telemetry.agent.source import SourceError
from heddle.telemetry.agent.sources import ethtool
from heddle.telemetry.agent.sources.ethtool import HostNics, driver_counters
from tests.fakes.telemetry.sys_tree import SysTree


@pytest.fixture
def tree(tmp_path, monkeypatch):
    driver = {}
    monkeypatch.setattr(ethtool, "driver_counters", lambda ioctls, device: driver.get(device, {}))
    return SysTree(tmp_path, driver)


@pytest.fixture
async def opened():
    """Sources, closed after the test."""
    sources = []

    def open_source(device_of, *root):
        sources.append(HostNics("h1", device_of, *root))
        return sources[-1]

    yield open_source
    for source in sources:
        await source.close()


async def sample(source, now=1000):
    (device,) = await source.read(now)
    (one,) = device.samples
    return one


async def test_mlx5s_counters_are_read_from_driver_and_rdma_device(tree, opened):
    tree.net("eth2", ifindex=4, tx_bytes=1, rx_bytes=2)
    tree.rdma("mlx5_0", "eth2", np_cnp_sent=5, out_of_sequence=6, lifespan=10)
    tree.rdma("mlx5_1", "eth3", np_cnp_sent=99)
    tree.driver["eth2"] = {
        "tx_bytes_phy": 1000, "rx_bytes_phy": 2000, "tx_packets_phy": 10, "rx_packets_phy": 20,
        "rx_discards_phy": 3, "rx_prio3_pause": 7, "rx_prio3_pause_duration": 8, "rx0_packets": 1,
    }  # fmt: skip
    one = await sample(opened({"h1-n0": "eth2"}, tree.root))
    assert (one.port, one.timestamp_unix_ns) == ("h1-n0", 1000)
    assert (one.tx_bytes, one.rx_bytes, one.tx_packets, one.rx_packets, one.drops) == (1000, 2000, 10, 20, 3)
    assert [(queue.priority, queue.pfc_rx_frames, queue.paused_ns) for queue in one.queues] == [(3, 7, 8000)]
    assert one.nic_counters == {"np_cnp_sent": 5, "out_of_sequence": 6, "lifespan": 10, "rx_discards_phy": 3}


async def test_the_link_of_a_nic_is_read_under_mlx5s_names_first(tree, opened):
    tree.net("eth2", ifindex=4, rx_crc_errors=1)
    link = tree.root / "sys/class/net/eth2"
    (link / "speed").write_text("200000\n")
    (link / "carrier_down_count").write_text("3\n")
    source = opened({"h1-n0": "eth2"}, tree.root)
    one = await sample(source)
    assert (one.rx_crc_errors, one.flaps, one.speed_bps, one.lanes) == (1, 3, 200 * 10**9, None)
    tree.driver["eth2"] = {
        "rx_crc_errors_phy": 9, "link_down_events_phy": 4, "rx_fec_corrected_blocks": 5,
        "rx_fec_uncorrectable_blocks": 6,
    }  # fmt: skip
    one = await sample(source, 2000)
    assert (one.rx_crc_errors, one.flaps) == (9, 4)
    assert (one.fec_corrected_codewords, one.fec_uncorrectable_codewords) == (5, 6)


@pytest.mark.parametrize("text", ["-1", "4294967295", "0", "", "N/A", "9" * 40])
async def test_the_speed_of_a_link_that_is_down_is_unknown(tree, opened, text):
    tree.net("eth2", ifindex=4)
    (tree.root / "sys/class/net/eth2/speed").write_text(text)
    one = await sample(opened({"h1-n0": "eth2"}, tree.root))
    assert (one.speed_bps, one.flaps, one.rx_crc_errors) == (None, None, None)


async def test_a_driver_without_counters_leaves_the_kernels(tree, opened):
    tree.net("eth2", ifindex=4, tx_bytes=11, rx_bytes=12, tx_packets=13, rx_packets=14, rx_dropped=1, tx_dropped=2)
    one = await sample(opened({"h1-n0": "eth2"}, tree.root))
    assert (one.tx_bytes, one.rx_bytes, one.tx_packets, one.rx_packets, one.drops) == (11, 12, 13, 14, 3)
    assert one.queues == ()
    assert one.nic_counters == {}


async def test_an_rdma_device_without_gids_is_found_beside_its_network_device(tree, opened):
    tree.net("eth2", ifindex=4)
    tree.rdma("mlx5_0", "eth2", gids=False, rp_cnp_handled=4)
    one = await sample(opened({"h1-n0": "eth2"}, tree.root))
    assert one.nic_counters == {"rp_cnp_handled": 4}


async def test_a_driver_loaded_again_and_counters_that_fell_have_another_boot_id(tree, opened):
    tree.net("eth2", ifindex=4, tx_bytes=1000)
    source = opened({"h1-n0": "eth2"}, tree.root)
    first = (await sample(source)).boot_id
    tree.net("eth2", ifindex=4, tx_bytes=2000)
    assert (await sample(source)).boot_id == first
    assert (await sample(opened({"h1-n0": "eth2"}, tree.root))).boot_id == first
    tree.net("eth2", ifindex=4, tx_bytes=5)
    fallen = (await sample(source)).boot_id
    tree.net("eth2", ifindex=9, tx_bytes=6)
    assert len({first, fallen, (await sample(source)).boot_id}) == 3


async def test_a_missing_nic_leaves_the_others(tree, opened):
    tree.net("eth3", ifindex=5)
    source = opened({"h1-n0": "eth2", "h1-n1": "eth3"}, tree.root)
    assert (await sample(source)).port == "h1-n1"
    with pytest.raises(SourceError, match="eth2: No such file"):
        await opened({"h1-n0": "eth2"}, tree.root).read(1)


async def test_files_without_a_number_are_skipped(tree, opened):
    tree.net("eth2", ifindex=4, tx_bytes="N/A", rx_bytes="9" * 5000, tx_packets=3)
    one = await sample(opened({"h1-n0": "eth2"}, tree.root))
    assert (one.tx_bytes, one.rx_bytes, one.tx_packets) == (0, 0, 3)


def test_the_loopback_has_no_driver_and_no_counters():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ioctls:
        assert driver_counters(ioctls, "lo") == {}


async def test_this_machines_loopback_is_read(opened):
    source = opened({"h1-n0": "lo"})
    before = await sample(source)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x" * 100, ("127.0.0.1", 9))
    after = await sample(source)
    assert after.tx_bytes >= before.tx_bytes + 100
    assert after.boot_id == before.boot_id


@pytest.fixture
def veth():
    """A pair of veths, in this namespace only for as long as the test."""
    if os.geteuid() != 0 or not shutil.which("ethtool"):
        pytest.skip("making a veth needs root, comparing needs ethtool")
    name = f"hdl{os.getpid():x}"[:12]
    subprocess.run(["ip", "link", "add", f"{name}a", "type", "veth", "peer", "name", f"{name}b"], check=True)
    yield f"{name}a"
    subprocess.run(["ip", "link", "delete", f"{name}a"], check=True)


def test_a_veths_counters_are_those_that_ethtool_shows(veth):
    shown = subprocess.run(["ethtool", "-S", veth], check=True, capture_output=True, text=True).stdout
    expected = {}
    for line in shown.splitlines()[1:]:
        name, _, value = line.strip().rpartition(":")
        expected[name] = int(value)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ioctls:
        assert driver_counters(ioctls, veth) == expected
    assert "peer_ifindex" in expected
