"""Internet checksums by a full sum over the bytes, and small IP packets with valid checksums."""

import struct
from ipaddress import ip_address


def ones_complement(data):
    """Return the ones' complement of the 16-bit ones' complement sum (RFC 1071), without optimisation."""
    data += bytes(len(data) % 2)
    total = sum(data[0::2]) * 256 + sum(data[1::2])
    while total > 0xFFFF:
        total = total % 0x10000 + total // 0x10000
    return 0xFFFF - total


def pseudo_header(packet):
    """Return the pseudo-header of TCP and UDP."""
    header, protocol = (packet[0] % 16 * 4, packet[9]) if packet[0] // 16 == 4 else (40, packet[6])
    addresses = packet[12:20] if packet[0] // 16 == 4 else packet[8:40]
    size = len(packet) - header
    return addresses + struct.pack("!II", size, protocol)


def faults(packet):
    """Return the names of the wrong checksums of a whole packet."""
    found = []
    version = packet[0] // 16
    header = packet[0] % 16 * 4 if version == 4 else 40
    protocol = packet[9] if version == 4 else packet[6]
    if version == 4 and ones_complement(packet[:header]) != 0:
        found.append("ip")
    payload = packet[header:]
    if protocol == 17 and payload[6:8] != b"\0\0" and ones_complement(pseudo_header(packet) + payload) != 0:
        found.append("udp")
    if protocol == 6 and ones_complement(pseudo_header(packet) + payload) != 0:
        found.append("tcp")
    if protocol == 1 and ones_complement(payload) != 0:
        found.append("icmp")
    return found


def ipv4(source, target, protocol, payload, *, identification=1, offset=0, more=False, ttl=64):
    """Return an IPv4 packet."""
    bits = offset // 8 | (0x2000 if more else 0)
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), identification, bits, ttl, protocol, 0)
    head += ip_address(source).packed + ip_address(target).packed
    return head[:10] + struct.pack("!H", ones_complement(head)) + head[12:] + payload


def ip(source, target, protocol, payload):
    """Return a packet of either version, with the checksum of its payload recomputed."""
    place = {6: 16, 17: 6, 1: 2, 58: 2}.get(protocol)
    first, second = ip_address(source).packed, ip_address(target).packed
    pseudo = first + second + struct.pack("!II", len(payload), protocol) if protocol != 1 else b""
    if place is not None:
        payload = payload[:place] + bytes(2) + payload[place + 2 :]
        checksum = ones_complement(pseudo + payload)
        if protocol == 17 and checksum == 0:
            checksum = 0xFFFF
        payload = payload[:place] + struct.pack("!H", checksum) + payload[place + 2 :]
    if len(first) == 4:
        return ipv4(source, target, protocol, payload)
    return struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64) + first + second + payload


def udp(source, sport, target, dport, data=b"data"):
    return ip(source, target, 17, struct.pack("!HHHH", sport, dport, 8 + len(data), 0) + data)


def tcp(source, sport, target, dport, flags="S", data=b"", *, sequence=None, ack=8):
    """Return a segment; both sides begin at 7 and have sent nothing but a SYN, unless numbers are given."""
    bits = sum({"F": 1, "S": 2, "R": 4, "P": 8, "A": 16}[flag] for flag in flags)
    if sequence is None:
        sequence = 7 if "S" in flags else 8
    return ip(source, target, 6, struct.pack("!HHIIBBHHH", sport, dport, sequence, ack, 0x50, bits, 512, 0, 0) + data)


def echo(source, target, identifier, *, reply=False, data=b"ping"):
    family = ip_address(source).version
    kind = {(4, False): 8, (4, True): 0, (6, False): 128, (6, True): 129}[family, reply]
    return ip(source, target, 1 if family == 4 else 58, struct.pack("!BBHHH", kind, 0, 0, identifier, 1) + data)


def icmp_error(source, target, quoted, *, kind=3, code=1):
    family = ip_address(source).version
    return ip(source, target, 1 if family == 4 else 58, struct.pack("!BBHI", kind, code, 0, 0) + quoted)


def read(packet):
    """Return (source, sport, target, dport) of a packet, addresses as text; an echo's ports are its identifier."""
    if packet[0] // 16 == 4:
        header, protocol = packet[0] % 16 * 4, packet[9]
        source, target = ip_address(packet[12:16]), ip_address(packet[16:20])
    else:
        header, protocol = 40, packet[6]
        source, target = ip_address(packet[8:24]), ip_address(packet[24:40])
    if protocol in (1, 58):
        sport = dport = struct.unpack("!H", packet[header + 4 : header + 6])[0]
    else:
        sport, dport = struct.unpack("!HH", packet[header : header + 4])
    return str(source), sport, str(target), dport
