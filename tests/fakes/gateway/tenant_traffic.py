"""A million packets of tenants that try to reach each other, and a judge of the receiver of each sent packet.

Every byte of a packet's payload is its sender's tenant (`TAG` + 0 red, 1 blue, 2 green), and so is a word beside the
packet; a packet from outside belongs to the tenant with the public address, VLAN or port that it is sent to. Red and
blue have equal addresses. One kind of forgery is excluded because no gateway can detect it: a VTEP, VNI and inner
source that match, sent by another host (the underlay's switches prevent it).
"""

import hashlib
from pathlib import Path

import numpy as np

from heddle.dataplane.config.addresses import gateway_mac
from heddle.dataplane.engine.burst import PUNTED, TRANSMIT
from heddle.dataplane.io.frames.in_memory import collect, offer
from heddle.dataplane.packet.memory import load8, load16, load32, store8, store16, store32
from heddle.kernels.cache import keep_on_disk
from tests.fakes.gateway import gateway_site as site
from tests.fakes.gateway.compiled_packets import (
    STAMP,
    below,
    called,
    step,
    sum_up,
    write_ethernet,
    write_ipv4,
    write_ipv6,
    write_tunnel,
)
from tests.fakes.gateway.two_tenants import BLUE, FLOATING, GREEN, HOST_C_MAC, HOSTS, MACS, NAT, RED, VLANS

SCENES = (
    "to an endpoint",  # of the own VPC, or of a peer
    "to the world",
    "to the storage",
    "to the customer",
    "to the others' public addresses",
    "spoofed VNI",
    "spoofed VTEP",
    "spoofed VNI and VTEP",
    "spoofed inner source",
    "another tenant's MAC",
    "error from within, about another's packet",
    "ARP under a spoofed VNI",
    "from the world",
    "from the storage",
    "from the customer",
    "spoofed source from outside",
    "error from the world, about another's packet",
)
(TO_ENDPOINT, TO_WORLD, TO_STORAGE, TO_CUSTOMER, TO_OTHERS, SPOOFED_VNI, SPOOFED_VTEP, SPOOFED_BOTH, SPOOFED_SOURCE,
 OTHERS_MAC, ERROR_WITHIN, SPOOFED_ARP, FROM_WORLD, FROM_STORAGE, FROM_CUSTOMER, SPOOFED_OUTSIDE,
 ERROR_OUTSIDE) = range(len(SCENES))  # fmt: skip
UNDERLAY_SCENES, OUTER_SCENES = range(FROM_WORLD), range(FROM_WORLD, len(SCENES))
TAG = 0xE1
RED_T, BLUE_T, GREEN_T = range(3)
_VNIS = (RED, BLUE, GREEN)
VNI = np.array(_VNIS)
MAC = np.array([MACS[vni] for vni in _VNIS])
GATEWAY = np.array([gateway_mac(vni) for vni in _VNIS])
HOST = np.array([int(HOSTS[vni]) for vni in _VNIS])
PUBLIC = np.array([[int(NAT[vni]), int(FLOATING[vni])] for vni in (RED, BLUE)])
VLAN = np.array([VLANS[RED], VLANS[BLUE]])
HOST_A, HOST_B, HOST_C = int(site.HOST_A), int(site.HOST_B), int(site.HOST_C)
HOST_MAC = {HOST_A: site.HOST_MACS[site.HOST_A], HOST_B: site.HOST_MACS[site.HOST_B], HOST_C: HOST_C_MAC}
MAC_A, MAC_B, MAC_C = (HOST_MAC[host] for host in (HOST_A, HOST_B, HOST_C))
OWN, OWN_MACS = int(site.VTEP), np.array(site.PORT_MACS)
ROUTER_MAC, CUSTOMER_MAC, STORAGE_MAC = site.ROUTER_MAC, site.CUSTOMER_MAC, site.STORAGE_MAC
PROVIDER_ADDRESS = int(site.LOCAL.interfaces[site.PROVIDER].address or 0)
INSIDE, PEER, CUSTOMER_NET = 0x0A000000, 0x0A030000, 0x0A630300
WORLD, STORAGE = 0xC6336400, 0xAC100500
PREFIX6 = -0x300000000000000  # fd00::/64
FIRST, FIRST_MAC = 10, 0x10
UDP, TCP, ICMP = 17, 6, 1
PORT_OF = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 3, 2, 1, 1)
"""By scene: the port on which it arrives."""


@step
def _fill(frame, at, count, tenant):
    for each in range(count):
        store8(frame, at + each, TAG + tenant)


@step
def _endpoint(tenant, host, chance):
    """Return the number of an endpoint at a host: the offset of its address from FIRST, of its MAC from FIRST_MAC."""
    if host == HOST_C:
        return 0 if tenant == GREEN_T else 2
    return below(chance, 2)


@step
def _transport(frame, at, protocol, source, target, count, tenant, chance):
    """Write a transport header and its payload; `count` bytes in all, at least 32."""
    _fill(frame, at, count, tenant)
    if protocol == ICMP:
        store16(frame, at, 0x0800 if below(chance, 2) else 0)
        store16(frame, at + 2, 0)
        store16(frame, at + 4, source)
        store16(frame, at + 6, 1)
        return
    store16(frame, at, source)
    store16(frame, at + 2, target)
    if protocol == UDP:
        store16(frame, at + 4, count)
        store16(frame, at + 6, below(chance, 2) * 0x1234)
        return
    store32(frame, at + 4, 1)
    store32(frame, at + 8, 1)
    store8(frame, at + 12, 0x50)
    store8(frame, at + 13, (2, 16, 18, 17, 2, 16, 4, 24)[below(chance, 8)])
    store32(frame, at + 14, 0xFFFF0000)
    store16(frame, at + 18, 0)


@step
def _packet(frame, at, source, target, outward, tenant, chance):
    """Write an IPv4 packet, whole or a fragment; return its bytes.

    There are few identifications, so that fragments of both tenants have the same ones; offsets overlap or not. Source
    ports are even for red and odd for blue, which translation preserves (RFC 4787, REQ-4).
    """
    protocol = (UDP, UDP, TCP, TCP, ICMP)[below(chance, 5)]
    near, far = 40000 + 2 * below(chance, 24) + tenant % 2, (443, 5001, 2049, 53)[below(chance, 4)]
    count, word = 32 + 8 * below(chance, 8), 0
    part = below(chance, 8)
    if part == 0:
        word = 0x2000
    elif part == 1:
        word = below(chance, 2) * 0x2000 + 1 + below(chance, 16)
    if outward:
        _transport(frame, at + 20, protocol, near, far, count, tenant, chance)
    else:
        _transport(frame, at + 20, protocol, near if protocol == ICMP else far, near, count, tenant, chance)
    if part == 1:
        _fill(frame, at + 20, count, tenant)
    write_ipv4(frame, at, 20 + count, source, target, protocol, word, below(chance, 8))
    return 20 + count


@step
def _error(frame, at, source, target, quoted_source, quoted_target, tenant, chance):
    """Write an ICMP error about a packet; return its bytes."""
    store32(frame, at + 20, 0x03030000 if below(chance, 2) else 0x0B000000)
    store32(frame, at + 24, 0)
    near = 40000 + 2 * below(chance, 24) + below(chance, 2)
    _transport(frame, at + 48, UDP, near, 53, 40, tenant, chance)
    write_ipv4(frame, at + 28, 60, quoted_source, quoted_target, UDP, 0, 1)
    write_ipv4(frame, at, 88, source, target, ICMP, 0, 1)
    return 88


@step
def _claim(scene, tenant, vni, host, number, chance):
    """Return the VTEP and the inner source that an underlay packet claims."""
    own = (PEER if tenant == GREEN_T else INSIDE) + FIRST + number
    if scene == SPOOFED_VTEP:
        return ((HOST_B, HOST_A, HOST_A)[tenant] if below(chance, 2) else OWN + 90), own
    if scene == SPOOFED_BOTH:
        if HOST[vni] == HOST_C:
            return HOST_C, PEER + 30 + below(chance, 9)
        return HOST[vni], INSIDE + FIRST + 2
    if scene == SPOOFED_SOURCE:
        lies = (INSIDE + FIRST + 1, INSIDE + 99, PUBLIC[tenant % 2, 0], WORLD + 7, CUSTOMER_NET + 3, PEER + 11)
        return host, lies[below(chance, 6)]
    return host, own


@step
def _aim(scene, tenant, other, chance):
    """Return the target address of an underlay packet, by its scene."""
    if scene == TO_WORLD or (scene == ERROR_WITHIN and below(chance, 2)):
        return WORLD + below(chance, 4)
    if scene == TO_STORAGE:
        return STORAGE + below(chance, 4)
    if scene == TO_CUSTOMER:
        return CUSTOMER_NET + below(chance, 4)
    if scene == TO_OTHERS:
        return PUBLIC[1 - tenant if tenant != GREEN_T else other, below(chance, 2)]
    if scene == TO_ENDPOINT and below(chance, 4) == 0:
        return PEER + FIRST
    return INSIDE + FIRST + below(chance, 3)


@step
def _underlay(frame, scene, tenant, chance):
    """Write a host's packet; return its bytes and its tenant."""
    other = (tenant + 1 + below(chance, 2)) % 3
    host, vni = HOST[tenant] if below(chance, 2) else HOST_C, tenant
    if scene == SPOOFED_SOURCE:
        host = HOST_C
    if scene in (SPOOFED_VNI, SPOOFED_BOTH, SPOOFED_ARP):
        if tenant == GREEN_T:  # its host has endpoints of all three
            tenant, other = RED_T, BLUE_T + below(chance, 2)
        host, vni = HOST[tenant], other
    number = _endpoint(tenant, host, chance)
    claimed, source = _claim(scene, tenant, vni, host, number, chance)
    target, target_mac = _aim(scene, tenant, other, chance), GATEWAY[vni]
    if scene == OTHERS_MAC:
        target_mac = MAC[other] + FIRST_MAC + target - INSIDE - FIRST
    elif scene == TO_ENDPOINT and tenant != GREEN_T and target < PEER and below(chance, 2):
        target_mac = MAC[tenant] + FIRST_MAC + target - INSIDE - FIRST
    kind = 0x0800
    if scene == SPOOFED_ARP:
        _fill(frame, 64, 28, tenant)
        store32(frame, 64, 0x00010800)
        store32(frame, 68, 0x06040001)
        kind, length = 0x0806, 28
    elif scene == TO_ENDPOINT and tenant != GREEN_T and number != 1 and below(chance, 4) == 0:
        _transport(frame, 104, UDP, 40000, 5001, 32, tenant, chance)
        write_ipv6(frame, 64, 32, PREFIX6, FIRST_MAC + number, FIRST_MAC + 2 - number, UDP)
        kind, length, target_mac = 0x86DD, 72, GATEWAY[vni]
    elif scene == ERROR_WITHIN:
        length = _error(frame, 64, source, target, target, source, tenant, chance)
    else:
        length = _packet(frame, 64, source, target, below(chance, 2), tenant, chance)
    write_ethernet(frame, 50, target_mac, MAC[tenant] + FIRST_MAC + number, kind)
    mac = MAC_A if host == HOST_A else MAC_B if host == HOST_B else MAC_C
    write_tunnel(frame, mac, OWN_MACS[0], claimed, OWN, VNI[vni], length + 14)
    return (length + 64) << 2 | tenant


@step
def _outer(frame, scene, tenant, chance):
    """Write a packet from outside; return its bytes and its tenant."""
    at, source, other = 14, WORLD + below(chance, 4), 1 - tenant
    target = PUBLIC[tenant, below(chance, 2)]
    mac = ROUTER_MAC
    if scene == FROM_STORAGE:
        source, target, mac = STORAGE + below(chance, 4), PROVIDER_ADDRESS, STORAGE_MAC
    elif scene == FROM_CUSTOMER:
        source, target, mac, at = CUSTOMER_NET + below(chance, 4), INSIDE + FIRST + below(chance, 3), CUSTOMER_MAC, 18
        if below(chance, 8) == 0:
            source = INSIDE + FIRST
    elif scene == SPOOFED_OUTSIDE:
        source = PUBLIC[other, below(chance, 2)] if below(chance, 2) else INSIDE + FIRST + below(chance, 2)
        target = target if below(chance, 2) else INSIDE + FIRST + below(chance, 3)
    if scene == ERROR_OUTSIDE:
        length = _error(frame, at, source, target, PUBLIC[other, below(chance, 2)], source, tenant, chance)
    else:
        length = _packet(frame, at, source, target, below(chance, 4) == 0, tenant, chance)
    if scene == FROM_STORAGE:  # both tenants have one address there: what is one packet's is one tenant's
        store16(frame, at + 4, 2 * below(chance, 4) + tenant)
        sum_up(frame, at, at + 20)
    write_ethernet(frame, 0, OWN_MACS[PORT_OF[scene]], mac, 0x0800 if at == 14 else 0x8100)
    if at == 18:
        store16(frame, 14, VLAN[tenant])
        store16(frame, 16, 0x0800)
    return (length + at) << 2 | tenant


@step
def _wrong_lengths(frame, length, at, chance):
    """Corrupt a length field of a packet."""
    value = (0, 1, 7, 19, 20, 27, 28, 40, 41, 60, 0xFFFF, length, length - at)[below(chance, 13)]
    place = below(chance, 5)
    if place == 0 and load16(frame, at - 2) == 0x0800:
        store16(frame, at + 2, value)
        sum_up(frame, at, length)
    elif place == 1:
        store16(frame, at + 24, value)
    elif place == 2 and at == 64:
        store16(frame, 16, value)
        sum_up(frame, 14, length)
    elif place == 3 and at == 64:
        store16(frame, 38, value)
    else:
        length = max(length - below(chance, 64), 1)
    return length


@called
def crowd(ports, frame, scenes, senders, port, count, chance):
    """Let `count` packets arrive at a port, and record their scenes and tenants."""
    done = 0
    while done < count:
        scene = below(chance, FROM_WORLD)
        if port == 0:
            written = _underlay(frame, scene, below(chance, 3), chance)
        else:
            scene = FROM_WORLD + below(chance, len(SCENES) - FROM_WORLD)
            if PORT_OF[scene] != port:
                continue
            written = _outer(frame, scene, below(chance, 2), chance)
        length = written >> 2
        if below(chance, 10) == 0:
            length = _wrong_lengths(frame, length, 64 if port == 0 else 18 if port == 2 else 14, chance)
        scenes[done], senders[done] = scene, written & 3
        if not offer(ports, port, frame, 0, length):
            return -1
        done += 1
    return done


@step
def _tenant_of_output(memory, packet):
    """Return the tenant that a sent packet is addressed to; -1 for none."""
    at = packet.at
    if packet.out_port == 0:
        vni, mac = load32(memory, at + 46) >> 8, load16(memory, at + 50) << 32 | load32(memory, at + 52)
        host = load32(memory, at + 30)
        for tenant in range(3):
            if vni == VNI[tenant]:
                return tenant if mac >> 8 == MAC[tenant] >> 8 and host in (HOST[tenant], HOST_C) else -1
        return -1
    if packet.out_port == 2:
        vlan = load16(memory, at + 14) & 0xFFF
        return 0 if vlan == VLAN[0] else 1 if vlan == VLAN[1] else -1
    source = load32(memory, at + 26)
    if packet.out_port == 1:
        for tenant in range(2):
            if source == PUBLIC[tenant, 0] or source == PUBLIC[tenant, 1]:
                return tenant
        return -1
    if source != PROVIDER_ADDRESS:
        return -1
    if packet.fragment == 2 or packet.protocol == ICMP:
        return -2
    return load16(memory, at + 34) & 1


@called
def judge(ports, packets, count, scenes, senders, frame, passed, crossed, seen):
    """Count sent and punted packets by scene, tenant and port, and packets at another tenant by scene.

    `seen` counts packets by scene, and checked payloads.
    """
    memory = ports.memory
    for i in range(count):
        packet, scene, sender = packets[i], scenes[i], senders[i]
        seen[scene] += 1
        if packet.node == PUNTED:
            passed[scene, sender, 4] += 1
            crossed[scene] += packet.vni != 0 and packet.vni != VNI[sender]
        if packet.node != TRANSMIT:
            continue
        target = _tenant_of_output(memory, packet)
        are_peers = packet.out_port == 0 and sender != BLUE_T and target != BLUE_T
        passed[scene, sender, packet.out_port] += 1
        is_wrong = target == -1 or (target >= 0 and target != sender and not are_peers)
        if packet.fragment == 2 or packet.l4_bytes > 30:
            last = load8(memory, packet.at + packet.length - 1)
            seen[len(SCENES)] += 1
            is_wrong |= last != TAG + sender
        crossed[scene] += is_wrong
    for port in range(ports.ports.size):
        while collect(ports, port, frame):
            pass


for kernel in (crowd, judge):
    keep_on_disk(kernel, stamp=STAMP + hashlib.sha256(Path(__file__).read_bytes()).hexdigest())
