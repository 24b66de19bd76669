"""The host agent's reporter against a real controller, with a program that prints what `rdma` would."""

import asyncio
import json
import socket
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest

from heddle.controller.model.address import parse_ip
from heddle.controller.model.observed import QueuePair
from heddle.foundation.backoff import Backoff
from heddle.foundation.kernel_port import cm_source_port
from heddle.telemetry.agent import program
from heddle.telemetry.agent import reporter as module
from heddle.telemetry.agent.reporter import Programs, QueuePairReporter
from tests.unit.api.conftest import running

RECORDED = Path(__file__).parents[2] / "data/soft_roce"
ENDS = ("h1-n0", "h2-n0")
SENT_FROM, SILENT = (49441, 49476, 56572, 61750), 61890
"""The source ports on the wire, and that of a queue pair that sent nothing meanwhile."""
PERIOD_S = 0.02
QUICK = Backoff(first_s=0.02, max_s=0.05)


def listed(device: str, own: int, peer: int) -> dict[str, object]:
    return {"ifindex": 0, "ifname": device, "port": 1, "lqpn": own, "rqpn": peer, "type": "RC", "state": "RTS"}


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Return a root with the RDMA devices mlx5_0 of eth2 and mlx5_9 of eth9, and a list of their queue pairs."""
    for rdma, device in (("mlx5_0", "eth2"), ("mlx5_9", "eth9")):
        folder = tmp_path / "sys/class/infiniband" / rdma
        (folder / "ports/1").mkdir(parents=True)
        (folder / "device/net" / device).mkdir(parents=True)
    rows = [listed("mlx5_0", 7, 9), listed("mlx5_0", 8, 10), listed("mlx5_9", 1, 2)]
    (tmp_path / "list.json").write_text(json.dumps(rows))
    (tmp_path / "cm.json").write_text("[]")
    return tmp_path


@asynccontextmanager
async def reporting(server: str, root: Path, host: str = "h1", program=None, cm_program=None):
    program = program or ("cat", str(root / "list.json"))
    programs = Programs(program, cm_program or ("cat", str(root / "cm.json")))
    reporter = QueuePairReporter(
        server, host, {"eth2": "10.0.0.1"}, programs=programs, period_s=PERIOD_S, root=root, backoff=QUICK
    )
    task = asyncio.create_task(reporter.run())
    try:
        yield reporter
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(holds) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


async def test_the_queue_pairs_of_a_hosts_own_nics_are_reported_every_period(controller, host):
    counts = controller.application.attached.flows.counts
    async with reporting(controller.addresses["grpc"], host) as reporter:
        await until(lambda: counts["messages"] >= 2)
    assert counts["queue_pairs"] == 2 * counts["messages"]
    assert counts["foreign"] == 0
    assert (reporter.connects, reporter.faults, reporter.left_out) == (1, 0, 0)


async def test_what_real_hosts_listed_becomes_streams_with_the_ports_that_they_sent_from(controller, tmp_path):
    for device in ("eth2", "eth3"):
        (tmp_path / device / "sys/class/infiniband/rxe0/ports/1").mkdir(parents=True)
        (tmp_path / device / "sys/class/infiniband/rxe0/device/net" / device).mkdir(parents=True)
    async with AsyncExitStack() as stack:
        for host, address, device in (("h1", "10.0.0.1", "eth2"), ("h2", "10.0.0.2", "eth3")):
            lists = Programs(*(("cat", str(RECORDED / f"{host}.{name}.json")) for name in ("qp", "cm_id")))
            reporter = QueuePairReporter(
                controller.addresses["grpc"], host, {device: address}, programs=lists, period_s=PERIOD_S,
                root=tmp_path / device, backoff=QUICK,
            )  # fmt: skip
            stack.callback(asyncio.create_task(reporter.run()).cancel)
        flows, fabric = controller.application.attached.flows, controller.application.loop.state.fabric
        await until(lambda: len(flows.newest.by_host) == 2)
    wanted = {*SENT_FROM, SILENT}
    streams = {tuple(stream) for stream in flows.newest.rates_bps(fabric)}
    assert streams == {(own, peer, port) for port in wanted for own, peer in (ENDS, ENDS[::-1])}


async def test_reports_are_metrics_of_the_controller(controller, host):
    async with reporting(controller.addresses["grpc"], host):
        await until(lambda: controller.application.attached.flows.counts["messages"])
    reader, writer = await asyncio.open_connection(*controller.addresses["http"].rsplit(":", 1))
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    assert f"heddle_flow_reports_total {controller.application.attached.flows.counts['messages']}" in text
    assert "heddle_flow_reports_queue_pairs_total" in text


async def test_reports_continue_with_the_controller_that_takes_the_place_of_another(host):
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{kept.getsockname()[1]}"
    async with AsyncExitStack() as stack:
        for number in range(2):
            async with running(grpc_address=address) as controller:
                if number == 0:
                    reporter = await stack.enter_async_context(reporting(address, host))
                counts = controller.application.attached.flows.counts
                await until(lambda counts=counts: counts["messages"])
        assert reporter.connects >= 2


async def test_a_refused_report_is_a_fault_and_the_next_stream_waits(controller, host, monkeypatch):
    waits = []

    def random() -> float:
        waits.append(1)
        return 1.0

    monkeypatch.setattr("random.random", random)
    async with reporting(controller.addresses["grpc"], host, host="h99") as reporter:
        await until(lambda: reporter.faults >= 3)
    assert len(waits) >= 2
    assert reporter.connects <= len(waits) + 1
    assert controller.application.attached.flows.counts["messages"] == 0


@pytest.mark.parametrize("program", [("/no/such/rdma",), ("false",), ("echo", "no list")])
async def test_a_list_that_cannot_be_read_is_a_fault_and_the_stream_stays(controller, host, program):
    async with reporting(controller.addresses["grpc"], host, program=program) as reporter:
        await until(lambda: reporter.faults >= 2)
    assert (reporter.connects, reporter.reports) == (1, 0)


async def test_a_list_without_end_is_a_fault(controller, host, monkeypatch):
    monkeypatch.setattr(program, "MAX_OUTPUT_BYTES", 1 << 16)
    async with reporting(controller.addresses["grpc"], host, program=("yes",)) as reporter:
        await until(lambda: reporter.faults >= 1)
    assert reporter.reports == 0


async def test_queue_pairs_past_the_limit_are_counted(controller, host, monkeypatch):
    monkeypatch.setattr(module, "MAX_QUEUE_PAIRS", 1)
    async with reporting(controller.addresses["grpc"], host) as reporter:
        await until(lambda: reporter.reports >= 1)
    assert reporter.left_out >= 1
    counts = controller.application.attached.flows.counts
    assert counts["queue_pairs"] == counts["messages"]


def connected(number: int, src: str, dst: str) -> dict[str, object]:
    """Return a connection of the CM as iproute2 lists it."""
    return {
        "ifindex": 0, "ifname": "mlx5_0", "port": 1, "lqpn": number, "qp-type": "RC", "state": "CONNECT", "ps": "TCP",
        "pid": 9, "cm-idn": number, "src-addr": src, "dst-addr": dst,
    }  # fmt: skip


async def test_a_queue_pair_of_the_cm_is_reported_with_the_addresses_and_the_port_of_its_packets(controller, host):
    rows = [connected(7, "10.0.0.1:45021", "10.0.0.3:4420"), connected(8, "fe80::1:45022", "fe80::3:4420")]
    (host / "cm.json").write_text(json.dumps(rows))
    flows = controller.application.attached.flows
    async with reporting(controller.addresses["grpc"], host) as reporter:
        await until(lambda: flows.counts["messages"])
    (found,) = flows.newest.by_host["h1"]
    wanted = QueuePair(parse_ip("10.0.0.1"), parse_ip("10.0.0.3"), cm_source_port(45021, 4420), 7, 9)
    assert found.pair == wanted
    assert reporter.left_out >= 1  # the one over IPv6
    assert reporter.without_cm == 0


@pytest.mark.parametrize("cm_program", [("/no/such/rdma",), ("false",), ("echo", '[["ifindex":0]]')])
async def test_where_the_cm_cannot_be_listed_queue_pairs_are_reported_as_without_it(
    controller, host, cm_program, caplog
):
    flows = controller.application.attached.flows
    async with reporting(controller.addresses["grpc"], host, cm_program=cm_program) as reporter:
        await until(lambda: flows.counts["messages"] >= 2)
    pairs = [each.pair for each in flows.newest.by_host["h1"]]
    assert [(each.dst_ip, each.udp_source_port, each.src_qpn) for each in pairs] == [(None, 0, 7), (None, 0, 8)]
    assert (reporter.faults, reporter.connects) == (0, 1)
    assert reporter.counts()["reports_without_cm"] >= 2
    assert sum("cm list fault" in record.getMessage() for record in caplog.records) == 1


async def test_a_list_of_the_cm_that_fails_later_is_a_fault_and_no_report_with_other_ports(controller, host):
    (host / "cm.json").write_text(json.dumps([connected(7, "10.0.0.1:45021", "10.0.0.3:4420")]))
    flows = controller.application.attached.flows
    async with reporting(controller.addresses["grpc"], host) as reporter:
        await until(lambda: flows.counts["messages"])
        (host / "cm.json").unlink()
        await until(lambda: reporter.faults >= 1)
        reports = reporter.reports
        await until(lambda: reporter.faults >= 3)
        assert reporter.reports == reports
    ports = {each.pair.udp_source_port for each in flows.newest.by_host["h1"]}
    assert cm_source_port(45021, 4420) in ports
