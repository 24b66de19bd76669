"""10,000 pins to one Open vSwitch bridge: our southbound and `ovs-ofctl add-flows`, alternating in one run."""

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TextIO

from heddle.controller.model.address import ip_text
from heddle.controller.model.rule import (
    ETH_IPV4,
    IP_UDP,
    ROCE_PORT,
    Change,
    ChangeOp,
    Cookie,
    CookieKind,
    FlowRule,
    Masked,
    Match,
    Output,
    Step,
)
from heddle.controller.southbound.server import OpenFlowServer
from tests.support.fabrics.southbound_events import RecordedEvents
from tests.support.processes.private_ovs import PrivateOvs, private_ovs

PINS = 10_000
REPETITIONS = 7
TABLE, PRIORITY, PORTS = 3, 100, 32
SWITCH = "leaf1"


def pin(i: int) -> FlowRule:
    """Return the i-th pin: exact source, destination and UDP source port, as the rule compiler makes them."""
    match = Match(
        eth_type=ETH_IPV4,
        ip_proto=IP_UDP,
        ipv4_src=Masked(0x0A000001 + i % 251, 0xFFFFFFFF),
        ipv4_dst=Masked(0x0A010001 + i, 0xFFFFFFFF),
        udp_src=Masked(0xC000 | i % 0x4000, 0xFFFF),
        udp_dst=ROCE_PORT,
    )
    cookie = Cookie(CookieKind.PIN, job_number=7, generation=i).pack()
    return FlowRule(table=TABLE, priority=PRIORITY, match=match, actions=(Output(1 + i % PORTS),), cookie=cookie)


def as_text(rule: FlowRule) -> str:
    """Format a pin for ovs-ofctl."""
    match, (output,) = rule.match, rule.actions
    assert isinstance(match, Match)
    assert isinstance(output, Output)
    assert match.ipv4_src is not None
    assert match.ipv4_dst is not None
    assert match.udp_src is not None
    return (
        f"table={rule.table},priority={rule.priority},cookie={rule.cookie:#x},udp,nw_src={ip_text(match.ipv4_src.value)},"
        f"nw_dst={ip_text(match.ipv4_dst.value)},udp_src={match.udp_src.value},udp_dst={match.udp_dst},"
        f"actions=output:{output.port}\n"
    )


async def measured(bridge: str, ovs: PrivateOvs) -> dict[str, list[float]]:
    """Install the pins by each method in turn; return the seconds of every repetition by method."""
    rules = [pin(i) for i in range(PINS)]
    flows = Path(ovs.directory) / "flows.txt"
    flows.write_text("".join(map(as_text, rules)))
    steps = [Step({SWITCH: tuple(Change(ChangeOp.RULE_ADD, rule) for rule in rules)})]
    events = RecordedEvents()
    server = OpenFlowServer("127.0.0.1", 0, {1: SWITCH}.get, events)
    host, port = await server.start()
    try:
        await asyncio.to_thread(ovs.add_bridge, bridge, datapath_id=1, controller=f"tcp:{host}:{port}")
        await events.wait_for("switch_up", SWITCH)

        def ofctl(*options: str) -> Callable[[], Awaitable[object]]:
            return lambda: asyncio.to_thread(ovs.ofctl, *options, "add-flows", bridge, str(flows))

        methods: dict[str, Callable[[], Awaitable[object]]] = {
            "heddle": lambda: server.install(steps),
            "ovs-ofctl add-flows": ofctl(),
            "ovs-ofctl --bundle add-flows": ofctl("--bundle"),
        }
        found: dict[str, list[float]] = {name: [] for name in methods}
        for _ in range(REPETITIONS):
            for name, install in methods.items():
                started = time.perf_counter()
                await install()
                found[name].append(time.perf_counter() - started)
                if set((await server.read_rules(SWITCH)).rules) != set(rules):
                    raise RuntimeError(f"{name} did not install the {PINS} pins")
                await asyncio.to_thread(ovs.ofctl, "del-flows", bridge)
        return found
    finally:
        await server.close()


def run(out: TextIO) -> dict[str, object]:
    with private_ovs() as ovs:
        seconds = asyncio.run(measured(f"bench{os.getpid()}", ovs))
    ours = statistics.median(seconds["heddle"])
    print(f"{PINS} pins to one switch, last barrier included, {REPETITIONS} repetitions, alternating", file=out)
    print(f"  {'':30} {'median ms':>10} {'worst ms':>10} {'rules/s':>10}", file=out)
    found: dict[str, object] = {"pins": PINS, "repetitions": REPETITIONS}
    for name, times in seconds.items():
        median = statistics.median(times)
        row = {"median_ms": median * 1e3, "worst_ms": max(times) * 1e3, "rules_per_s": PINS / median}
        found[name] = row
        print(
            f"  {name:30} {row['median_ms']:10.1f} {row['worst_ms']:10.1f} {row['rules_per_s']:10.0f}",
            file=out,
        )
    found["rate_ratio_to_add_flows"] = statistics.median(seconds["ovs-ofctl add-flows"]) / ours
    found["rate_ratio_to_bundle"] = statistics.median(seconds["ovs-ofctl --bundle add-flows"]) / ours
    print(f"  rate: {found['rate_ratio_to_add_flows']:.2f} times that of ovs-ofctl add-flows", file=out)
    return found
