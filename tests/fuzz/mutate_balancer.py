"""Send mutated packets through a balancer, and print what was found as JSON; for `test_balancer_mutations`.

    HEDDLE_BOUNDS_CHECK=1 python -m tests.fuzz.mutate_balancer CASES SEED

Seeds are packets of every kind that a balancer handles. A mutation changes bytes, cuts or repeats; half of the mutated
packets get correct IPv4 checksums, outside and inside, so that they are not all dropped for these.
"""

import gc
import json
import random
import sys

import numpy as np
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, ICMPv6PacketTooBig, IPv6, IPv6ExtHdrFragment
from scapy.packet import Raw

from heddle.dataplane.config.balancers import HealthCheck
from heddle.dataplane.engine.counters import imbalance
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.io.frames.layout import FRAMES, FREE
from heddle.dataplane.jit import CHECKED
from tests.fakes.balancer_site import (
    BLUE,
    CONFIG,
    GATEWAY,
    HOST_B,
    VIP,
    VIP6,
    BalancerLoop,
    changed,
    name_of,
    tunnelled,
)
from tests.oracles.inet_checksum import ones_complement

OUTER, INNER = 14, 64
"""Offsets of the IP headers in an underlay frame."""


def seeds():
    """Return underlay frames."""
    four, six = IP(src="10.0.0.10", dst=str(VIP)), IPv6(src="fd00::10", dst=str(VIP6))
    quoted = IP(src=str(VIP), dst="10.0.0.10") / TCP(sport=80, dport=1000, flags="A")
    quoted6 = IPv6(src=str(VIP6), dst="fd00::10") / TCP(sport=443, dport=1000, flags="A")
    inner = [network / TCP(sport=sport, dport=dport, flags=flags) / Raw(b"x" * 40)
             for network in (four, six) for sport in (1000, 1001) for dport in (80, 443, 8080, 81)
             for flags in ("S", "A", "FA", "R")]  # fmt: skip
    inner += [four / UDP(sport=1000, dport=dport) / Raw(b"x" * 60) for dport in (53, 123, 4791, 9)]
    inner += [six / UDP(sport=1000, dport=53) / Raw(b"x" * 60), six / ICMPv6EchoRequest(data=b"ping")]
    inner += [four / ICMP(id=7) / b"ping", four / ICMP(type=3, code=4) / Raw(bytes(quoted))]
    inner += [six / ICMPv6PacketTooBig(mtu=1280) / Raw(bytes(quoted6))]
    inner += [IP(bytes(part)) for part in (four / UDP(sport=1000, dport=53) / Raw(bytes(1200))).fragment(400)]
    inner += [IP(src="10.0.0.10", dst=str(VIP), options=[b"\x01" * 8]) / TCP(dport=80, flags="S")]
    inner += [six / IPv6ExtHdrFragment(id=5, m=1, nh=17) / UDP(sport=1000, dport=53) / Raw(bytes(64))]
    frames = [bytes(tunnelled(packet)) for packet in inner]
    frames += [bytes(tunnelled(IP(src="8.8.8.8", dst=str(VIP)) / TCP(dport=80), host=GATEWAY, last=1))]
    frames += [bytes(tunnelled(IP(src="10.0.0.10", dst=str(VIP)) / TCP(dport=80), vni=BLUE))]
    return frames


def mutated(frame, chance):
    """Return a frame with a few bytes changed, mostly in headers."""
    found = bytearray(frame)
    for _ in range(chance.choice((0, 1, 1, 1, 2, 4, 8))):
        at = min(int(chance.expovariate(1 / 30)) + chance.choice((0, OUTER, 50, INNER, INNER, INNER)), len(found) - 1)
        found[at] = chance.choice((found[at] ^ 1 << chance.randrange(8), chance.randrange(256), 0, 255))
    if chance.random() < 0.1:
        found = found[: chance.randrange(14, len(found) + 1)]
    if chance.random() < 0.5:
        for at in (INNER, OUTER):
            _sum_up(found, at)
    return bytes(found)


def _sum_up(frame, at):
    if len(frame) >= at + 20 and frame[at] >> 4 == 4:
        count = (frame[at] & 15) * 4
        if 20 <= count <= len(frame) - at:
            frame[at + 10 : at + 12] = bytes(2)
            frame[at + 10 : at + 12] = ones_complement(bytes(frame[at : at + count])).to_bytes(2, "big")


def replies(frames, chance):
    """Return some packets of back ends to what reached them, by exchanging addresses and ports of translated ones."""
    for frame in frames:
        if len(frame) < INNER + 24 or frame[INNER] != 0x45 or chance.random() < 0.5:
            continue
        packet = IP(frame[INNER:])
        if packet.src.startswith("10.0.0.20") and (TCP in packet or UDP in packet):
            kind = TCP if TCP in packet else UDP
            there = packet[kind]
            more = {"flags": chance.choice(("SA", "A", "FA"))} if kind is TCP else {}
            back = IP(src=packet.dst, dst=packet.src) / kind(sport=there.dport, dport=there.sport, **more)
            yield bytes(tunnelled(back, host=HOST_B, last=int(packet.dst.rsplit(".")[-1])))


def main(cases, seed):
    chance, base = random.Random(seed), seeds()
    checked = changed(CONFIG, b1={"health": HealthCheck()}, b8={"health": HealthCheck()})
    down = {name_of(checked.balancers[row], end) for row in (1, 8) for end in checked.balancers[row].back_ends}
    loop, faults, left, sent, waiting = BalancerLoop(checked), [], 0, 0, []
    for number in range(-(-cases // 64)):
        if number % 500 == 250:
            loop.configure(checked, down=down if number % 1000 == 250 else set())
        if number % 50 == 10:  # time passes
            loop.let_pass(chance.choice((3, 100, 260)))
        burst = [waiting.pop() if waiting else mutated(chance.choice(base), chance) for _ in range(64)]
        sent += sum(loop.io.put(0, frame) for frame in burst)
        loop.forward()
        out = loop.io.take(0)
        left += len(out)
        if number % 4 == 0:
            waiting = [mutated(frame, chance) for frame in replies(out[:8], chance)]
        if imbalance(loop.counters) or loop.counters.drops[Drop.BAD_STATE]:
            faults.append(f"burst {number}: {imbalance(loop.counters)} packets have no end")
        if number % 100 == 0:
            faults += [f"burst {number}: {fault}" for fault in loop.state_faults()]
        loop.punts.read()
    if loop.io.ports.pool[FRAMES] != loop.io.ports.pool[FREE]:
        faults.append(f"{loop.io.ports.pool[FREE]} of {loop.io.ports.pool[FRAMES]} buffers are free")
    counters = loop.counters
    return {
        "checked": CHECKED, "packets": int(counters.ports["rx_packets"].sum()), "left": left,
        "sent": int(counters.ports["tx_packets"].sum()), "faults": faults[:20],
        "drops": {reason.name: int(counters.drops[reason]) for reason in Drop if counters.drops[reason]},
        "punts": {reason.name: int(counters.punts[reason]) for reason in Punt if counters.punts[reason]},
        "counters": loop.state.counters.tolist(), "rows": int(np.count_nonzero(loop.state.words)),
    }  # fmt: skip


if __name__ == "__main__":
    gc.disable()  # a twelfth of the time to compile
    print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]))))
