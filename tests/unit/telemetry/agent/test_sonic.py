"""A SONiC switch's COUNTERS_DB in a real Redis server, in the shape of 64 ports with eight queues each."""

import asyncio
from pathlib import Path

import pytest
import redis

from heddle.controller.config.port_map import by_lanes
from heddle.telemetry.agent.source import SourceError
from heddle.telemetry.agent.sources.sonic import APPL_DB, SLOW_PERIOD_NS, SonicSwitch
from heddle.telemetry.neighbours.heard import Heard, Sender
from heddle.telemetry.samples.topic import Source
from tests.support.processes.redis_server import PROGRAM, SonicCounters, redis_server

S = 1_000_000_000
NOW = 1_790_000_000 * S
pytestmark = pytest.mark.skipif(
    not Path(PROGRAM).exists(), reason="Debian's redis-server is not installed (scripts/setup all)"
)


@pytest.fixture(scope="module")
def running():
    with redis_server() as server:
        yield server


@pytest.fixture
def counters(running):
    with running.client() as client:
        client.flushdb()
        yield SonicCounters(client, ports=4)


@pytest.fixture
def full(counters):
    return SonicCounters(counters.client)


@pytest.fixture
async def switch(running):
    source = SonicSwitch("leaf1", running.url, by_lanes(4))
    yield source
    await source.close()


async def samples(source, now=NOW):
    (device,) = await source.read(now)
    assert (device.kind, device.device) == (Source.SWITCH, "leaf1")
    return {one.port: one for one in device.samples}


def filled(counters, base=100):
    counters.write_maps()
    counters.write(base)


async def test_every_port_and_queue_is_read_under_the_fabrics_names(full, switch):
    filled(full)
    found = await samples(switch)
    assert list(found) == [f"leaf1:{number}" for number in range(1, 65)]
    one = found["leaf1:3"]
    assert one.timestamp_unix_ns == NOW
    assert (one.tx_bytes, one.rx_bytes, one.tx_packets, one.rx_packets, one.drops) == (100_002, 200_002, 101, 200, 7)
    assert [queue.priority for queue in one.queues] == list(range(8))
    three = one.queues[3]
    assert (three.pfc_rx_frames, three.pfc_tx_frames, three.paused_ns) == (103, 130, 700_000)
    assert (three.packets, three.bytes, three.dropped_packets, three.ecn_marked_packets) == (1003, 1_000_003, 3, 103)
    assert (three.depth_bytes, three.max_depth_bytes) == (0, 50_003)


async def test_a_period_is_one_round_trip(full, switch):
    filled(full)
    await samples(switch)
    reads = full.client.info("stats")["total_reads_processed"]
    await samples(switch, NOW + S)
    # 576 objects: sent one by one they would need as many reads; a pipeline comes in pieces of 16 KiB.
    assert full.client.info("stats")["total_reads_processed"] - reads < 40


async def test_a_pause_time_without_a_unit_is_in_microseconds(counters, switch):
    filled(counters)
    oid = counters.ports["Ethernet0"]
    counters.client.hdel(f"COUNTERS:{oid}", "SAI_PORT_STAT_PFC_3_RX_PAUSE_DURATION_US")
    counters.client.hset(f"COUNTERS:{oid}", "SAI_PORT_STAT_PFC_3_RX_PAUSE_DURATION", "42")
    assert (await samples(switch))["leaf1:1"].queues[3].paused_ns == 42_000


async def test_the_state_of_the_pfc_watchdog_is_read_and_ends_with_the_watchdog(counters, switch):
    filled(counters)
    key = f"COUNTERS:{counters.queues['Ethernet0:3']}"
    fields = {"PFC_WD_STATUS": "stormed", "PFC_WD_QUEUE_STATS_TX_DROPPED_PACKETS": "7"}
    counters.client.hset(key, mapping=fields)
    queues = (await samples(switch))["leaf1:1"].queues
    assert [queue.watchdog_active for queue in queues] == [queue.priority == 3 for queue in queues]
    assert queues[3].watchdog_dropped_packets == 7
    counters.client.hset(key, "PFC_WD_STATUS", "operational")
    assert not (await samples(switch, NOW + S))["leaf1:1"].queues[3].watchdog_active
    counters.client.hset(key, "PFC_WD_STATUS", "stormed")
    counters.client.hdel(key, *fields)
    assert not (await samples(switch, NOW + 2 * S))["leaf1:1"].queues[3].watchdog_active


@pytest.mark.parametrize("odd", ["N/A", "", "-5", "1e9", "x" * 100, "9" * 5000])
async def test_a_counter_that_cannot_be_read_keeps_its_last_value(counters, switch, odd):
    filled(counters)
    before = (await samples(switch))["leaf1:1"]
    counters.write(200)
    counters.client.hset(f"COUNTERS:{counters.ports['Ethernet0']}", "SAI_PORT_STAT_IF_OUT_OCTETS", odd)
    counters.client.hdel(f"COUNTERS:{counters.queues['Ethernet0:3']}", "SAI_QUEUE_STAT_BYTES")
    after = (await samples(switch, NOW + S))["leaf1:1"]
    assert (after.tx_bytes, after.queues[3].bytes) == (before.tx_bytes, before.queues[3].bytes)
    assert after.rx_bytes > before.rx_bytes
    assert after.boot_id == before.boot_id


def link_of(counters, running=None, **fields):
    """Write a port's row of APPL_DB, and in STATE_DB the speed that it runs at."""
    path = counters.client.connection_pool.connection_kwargs["path"]
    rows = {
        (0, "PORT_TABLE:Ethernet0"): fields,
        (6, "PORT_TABLE|Ethernet0"): {} if running is None else {"speed": running},
    }
    for (number, key), row in rows.items():
        with redis.Redis(unix_socket_path=path, db=number) as client:
            client.delete(key)
            if row:
                client.hset(key, mapping=row)


async def test_the_link_of_a_port_is_read_and_the_rate_that_it_runs_at_goes_first(counters, switch):
    filled(counters)
    fields = {"SAI_PORT_STAT_IF_IN_FEC_CORRECTABLE_FRAMES": 5, "SAI_PORT_STAT_IF_IN_FEC_NOT_CORRECTABLE_FRAMES": 6}
    counters.client.hset(f"COUNTERS:{counters.ports['Ethernet0']}", mapping=fields)
    link_of(counters, oper_status="up", speed="400000", lanes="0,1,2,3", flap_count="7", running="200000")
    one = (await samples(switch))["leaf1:1"]
    assert (one.rx_crc_errors, one.fec_corrected_codewords, one.fec_uncorrectable_codewords) == (99, 5, 6)
    assert (one.carrier, one.flaps, one.speed_bps, one.lanes) == (True, 7, 200 * 10**9, 4)
    link_of(counters, oper_status="up", speed="400000", lanes="0,1", running="N/A")
    one = (await samples(switch, NOW + S))["leaf1:1"]
    assert (one.flaps, one.speed_bps, one.lanes) == (None, 400 * 10**9, 2)


@pytest.mark.parametrize("odd", ["N/A", "", "nan", "-1", "0", "inf"])
async def test_a_rate_that_is_no_rate_is_unknown(counters, switch, odd):
    filled(counters)
    link_of(counters, speed=odd, running=odd)
    assert (await samples(switch))["leaf1:1"].speed_bps is None


async def test_a_count_of_errors_that_disappears_is_unknown_and_no_restart(counters, switch):
    filled(counters)
    link_of(counters)
    before = (await samples(switch))["leaf1:1"]
    counters.client.hset(f"COUNTERS:{counters.ports['Ethernet0']}", "SAI_PORT_STAT_IF_IN_ERRORS", "N/A")
    after = (await samples(switch, NOW + S))["leaf1:1"]
    assert (before.rx_crc_errors, after.rx_crc_errors, after.boot_id) == (99, None, before.boot_id)
    assert (after.fec_corrected_codewords, after.flaps, after.speed_bps, after.lanes, after.carrier) == (None,) * 5


async def test_a_port_without_counters_is_left_out(counters, switch):
    filled(counters)
    counters.client.delete(f"COUNTERS:{counters.ports['Ethernet8']}")
    found = await samples(switch)
    assert len(found) == 3
    assert "leaf1:3" not in found


async def test_a_key_of_another_type_costs_one_port_and_not_the_switch(counters, switch):
    filled(counters)
    key = f"COUNTERS:{counters.ports['Ethernet0']}"
    counters.client.delete(key)
    counters.client.set(key, "no hash")
    assert len(await samples(switch)) == 3


async def test_ports_outside_the_port_map_are_left_out(counters, switch):
    filled(counters)
    counters.client.hset("COUNTERS_PORT_NAME_MAP", "PortChannel1", "oid:0x2000000000001")
    counters.client.hset("COUNTERS_PORT_NAME_MAP", "Ethernet2", "oid:0x2000000000002")
    assert len(await samples(switch)) == 4


async def test_watermarks_are_read_again_after_a_while(counters, switch):
    filled(counters)
    await samples(switch)
    key = f"USER_WATERMARKS:{counters.queues['Ethernet0:3']}"
    counters.client.delete(key)
    counters.client.hset(
        f"PERIODIC_WATERMARKS:{counters.queues['Ethernet0:3']}", "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES", "7"
    )
    assert (await samples(switch, NOW + S))["leaf1:1"].queues[3].max_depth_bytes == 50_003
    assert (await samples(switch, NOW + SLOW_PERIOD_NS))["leaf1:1"].queues[3].max_depth_bytes == 7


async def test_restarted_counters_have_another_boot_id_also_for_another_agent(counters, switch, running):
    filled(counters, base=500)
    first = (await samples(switch))["leaf1:1"].boot_id
    counters.write(600)
    assert (await samples(switch, NOW + S))["leaf1:1"].boot_id == first
    counters.write(1)
    fallen = (await samples(switch, NOW + 2 * S))["leaf1:1"].boot_id
    assert fallen != first
    again = SonicSwitch("leaf1", running.url, by_lanes(4))
    assert (await samples(again))["leaf1:1"].boot_id == first
    await again.close()


async def test_a_switch_whose_objects_have_new_ids_is_read_by_the_new_maps(counters, switch):
    filled(counters, base=500)
    first = (await samples(switch))["leaf1:1"].boot_id
    counters.client.flushdb()
    filled(SonicCounters(counters.client, ports=4, first_oid=0x1000000000F01), base=900)
    with pytest.raises(SourceError, match="no counters of a known port"):
        await switch.read(NOW + S)
    after = (await samples(switch, NOW + 2 * S))["leaf1:1"]
    assert after.tx_packets == 901
    assert after.boot_id != first


async def test_an_empty_database_is_an_error(counters, switch):
    with pytest.raises(SourceError, match="COUNTERS_PORT_NAME_MAP"):
        await switch.read(NOW)


async def test_maps_of_another_type_are_an_error(counters, switch):
    counters.client.set("COUNTERS_PORT_NAME_MAP", "no hash")
    with pytest.raises(SourceError, match="is not a hash"):
        await switch.read(NOW)


async def test_redis_may_be_restarted():
    with redis_server() as server:
        with server.client() as client:
            filled(SonicCounters(client, ports=2))
        source = SonicSwitch("leaf1", server.url, by_lanes(4))
        before = await samples(source)
        server.kill()
        with pytest.raises(SourceError, match="Redis"):
            await source.read(NOW + S)
        server.start()
        with pytest.raises(SourceError):  # nothing is in it yet
            await source.read(NOW + 2 * S)
        with server.client() as client:
            filled(SonicCounters(client, ports=2), base=101)
        after = await samples(source, NOW + 3 * S)
        assert after["leaf1:1"].boot_id == before["leaf1:1"].boot_id
        assert after["leaf1:1"].tx_packets == before["leaf1:1"].tx_packets + 1
        await source.close()


async def test_a_redis_that_does_not_reply_times_out_within_seconds(tmp_path):
    async def silent(reader, writer):
        await reader.read()
        writer.close()

    path = tmp_path / "silent.sock"
    server = await asyncio.start_unix_server(silent, path)
    source = SonicSwitch("leaf1", f"unix://{path}", by_lanes(4))
    async with asyncio.timeout(20):
        with pytest.raises(SourceError, match="Redis"):
            await source.read(NOW)
    await source.close()
    server.close()


async def test_carrier_is_the_ports_state_in_the_application_database(running, counters, switch):
    filled(counters)
    with redis.Redis(unix_socket_path=str(running.socket), db=0) as ports:
        ports.hset("PORT_TABLE:Ethernet0", "oper_status", "up")
        ports.hset("PORT_TABLE:Ethernet4", "oper_status", "down")
        ports.hset("PORT_TABLE:Ethernet8", "oper_status", "N/A")
        try:
            found = await samples(switch)
        finally:
            ports.flushdb()
    assert [found[f"leaf1:{number}"].carrier for number in (1, 2, 3, 4)] == [True, False, None, None]
    assert found["leaf1:1"].tx_bytes == (await samples(switch, NOW + S))["leaf1:1"].tx_bytes


async def test_what_ports_hear_is_read_from_lldp_syncds_rows(running, counters, switch):
    filled(counters)
    row = {"lldp_rem_sys_name": "spine1", "lldp_rem_port_id": "Ethernet8", "lldp_rem_port_desc": "to leaf1",
           "lldp_rem_chassis_id": "0c:42:a1:00:00:01", "lldp_rem_time_mark": "12"}  # fmt: skip
    assert await switch.neighbours() == {}, "no port is known before the counters are read"
    await samples(switch)
    with redis.Redis(unix_socket_path=str(running.socket), db=APPL_DB) as appl:
        appl.hset("LLDP_ENTRY_TABLE:Ethernet4", mapping=row)
        appl.set("LLDP_ENTRY_TABLE:Ethernet8", "not a hash")
        found = await switch.neighbours()
        appl.delete("LLDP_ENTRY_TABLE:Ethernet4", "LLDP_ENTRY_TABLE:Ethernet8")
    sender = Sender("spine1", "0c:42:a1:00:00:01", ("Ethernet8", "to leaf1"))
    assert found == {
        "leaf1:1": Heard("Ethernet0"), "leaf1:2": Heard("Ethernet4", (sender,)), "leaf1:4": Heard("Ethernet12"),
    }  # fmt: skip
    assert (await samples(switch, NOW + S))["leaf1:1"].tx_packets > 0, "counters are read from their own database"
