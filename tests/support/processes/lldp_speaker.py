"""Speak LLDP in one network namespace (IEEE 802.1AB), and keep what is heard in a file as `lldpcli -f json0` prints it.

    python lldp_speaker.py SYSTEM FILE     runs until it is killed; needs CAP_NET_RAW

It stands in for lldpd: real frames on real interfaces, which it knows by names and indexes as they are now.
"""

import fcntl
import json
import os
import socket
import struct
import sys
import time
from pathlib import Path

LLDP, NEAREST_BRIDGE = 0x88CC, bytes.fromhex("0180c200000e")
SIOCGIFFLAGS, SIOCGIFHWADDR, IFF_LOOPBACK, IFF_RUNNING = 0x8913, 0x8927, 0x8, 0x40
EVERY_S, TTL_S = 0.2, 3.0
CHASSIS, PORT, TTL, DESCRIPTION, SYSTEM = 1, 2, 3, 4, 5
Heard = dict[int, tuple[str, str, float, float]]


def ask(raw: socket.socket, request: int, interface: str) -> bytes:
    """Return a struct ifreq: /sys is that of another namespace here."""
    return fcntl.ioctl(raw, request, struct.pack("=16s24x", interface.encode()))


def element(kind: int, content: bytes) -> bytes:
    return struct.pack("!H", kind << 9 | len(content)) + content


def frame(system: str, interface: str, mac: bytes) -> bytes:
    elements = (
        (CHASSIS, b"\x04" + mac), (PORT, b"\x05" + interface.encode()), (TTL, struct.pack("!H", int(TTL_S))),
        (DESCRIPTION, interface.encode()), (SYSTEM, system.encode()), (0, b""),
    )  # fmt: skip
    return NEAREST_BRIDGE + mac + struct.pack("!H", LLDP) + b"".join(element(*each) for each in elements)


def elements(data: bytes) -> dict[int, bytes]:
    found, at = {}, 14
    while at + 2 <= len(data):
        (head,) = struct.unpack_from("!H", data, at)
        found[head >> 9] = data[at + 2 : at + 2 + (head & 0x1FF)]
        at += 2 + (head & 0x1FF)
    return found


def send(raw: socket.socket, system: str) -> set[int]:
    """Send a frame out of every interface that has carrier; return their indexes."""
    up = set()
    for index, name in socket.if_nameindex():
        try:
            mac, (flags,) = (
                ask(raw, SIOCGIFHWADDR, name)[18:24],
                struct.unpack_from("=H", ask(raw, SIOCGIFFLAGS, name), 16),
            )
            if flags & IFF_RUNNING and not flags & IFF_LOOPBACK:
                raw.sendto(frame(system, name, mac), (name, LLDP))
                up.add(index)
        except OSError:
            continue  # set down or renamed meanwhile
    return up


def receive(raw: socket.socket, heard: Heard) -> None:
    """Take what arrives within EVERY_S."""
    end = time.monotonic() + EVERY_S
    while (left_s := end - time.monotonic()) > 0:
        raw.settimeout(left_s)
        try:
            data, (name, _, kind, *_) = raw.recvfrom(2_048)
        except TimeoutError:
            return
        if kind == socket.PACKET_OUTGOING:
            continue
        found, now = elements(data), time.monotonic()
        who = (found[SYSTEM].decode(), found[PORT][1:].decode())
        index = socket.if_nametoindex(name)
        since = heard[index][2] if index in heard and heard[index][:2] == who else now
        heard[index] = (*who, since, now)


def document(heard: Heard) -> object:
    names = dict(socket.if_nameindex())
    now = time.monotonic()
    interfaces = [
        {
            "name": names[index], "age": f"0 day, 00:00:{min(59, int(now - since)):02}",
            "chassis": [{"name": [{"value": system}]}], "port": [{"id": [{"type": "ifname", "value": port}]}],
        }
        for index, (system, port, since, last) in heard.items()
        if index in names and now - last < TTL_S
    ]  # fmt: skip
    return {"lldp": [{"interface": interfaces}]}


def main(system: str, file: Path) -> None:
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(LLDP))
    heard: Heard = {}
    while True:
        up = send(raw, system)
        for index in heard.keys() - up:
            del heard[index]
        receive(raw, heard)
        new = file.with_suffix(".new")
        new.write_text(json.dumps(document(heard)))
        os.replace(new, file)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
