"""Read what a check needs: the addresses of switches, and the NICs that this machine can probe from."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from heddle.controller.config.text.complaint import one_line, shown
from heddle.controller.config.text.document import read_text
from heddle.controller.model.address import ip_text, parse_ip
from heddle.controller.model.error import InputError, PrerequisiteError
from heddle.controller.model.fabric import Fabric, Nic
from heddle.controller.model.port_addresses import links_by_address
from heddle.controller.model.suggest import did_you_mean
from heddle.foundation.network_namespace import network_namespace
from heddle.probing.check.places import Places

FABRIC_FILE, ADDRESSES_FILE, NODES_FILE = "fabric.yaml", "addresses.json", "nodes.json"
"""Files in the directory of a lab: the last names the process that holds the network namespace of each host."""


class Source(NamedTuple):
    """A NIC to probe from, its device, and the process whose network namespace has it; 0 for this one's."""

    nic: Nic
    device: str
    pid: int = 0


@contextmanager
def entered(pid: int) -> Iterator[None]:
    """Run the block in the network namespace of a process, or in this one's for 0."""
    with network_namespace(pid) if pid else nullcontext():
        yield


def places_of(fabric: Fabric, path: Path | None) -> Places:
    """Return what addresses stand for: those of ports in the fabric file or as numbered, and those of a file beside it.

    Raises InputError with all problems.
    """
    link_at = dict(links_by_address(fabric))
    switch_at = {address: link.partition(">")[2].partition(":")[0] for address, link in link_at.items()}
    if path is None:
        return Places(link_at, switch_at)
    links = {str(port): link for cable in fabric.cables for port, link in (
        (cable.lower, cable.down_link), (cable.upper, cable.up_link))}  # fmt: skip
    listed: dict[int, str] = {}
    problems = []
    name = one_line(str(path))
    for port, text in _object(path).items():
        switch = port.partition(":")[0]
        try:
            address = parse_ip(str(text))
        except ValueError:
            problems.append(f"{name}: {one_line(port)}: {shown(text)} is no IPv4 address")
            continue
        if switch not in fabric.switch_by_id or (":" in port and port not in links):
            known = did_you_mean(port, [*links, *fabric.switch_by_id])
            problems.append(f"{name}: {one_line(port)} is no port of a cable and no switch{known}")
        elif address in listed:
            problems.append(f"{name}: {one_line(port)}: {ip_text(address)} is the address of {listed[address]} too")
        else:
            listed[address] = port
            switch_at[address] = switch
            link_at |= {address: links[port]} if port in links else {}
    if problems:
        raise InputError(*problems)
    return Places(link_at, switch_at)


def sources_of(fabric: Fabric, wanted: Sequence[str], nodes: Path | None) -> list[Source]:
    """Return the NICs to probe from: those that are wanted, else all that this machine or the lab's nodes have."""
    for name in wanted:
        if name not in fabric.nic_by_id:
            raise InputError(f"--nic {one_line(name)}: no such NIC in the fabric{did_you_mean(name, fabric.nic_by_id)}")
    hosts = {} if nodes is None else {host: int(str(pid)) for host, pid in _object(nodes).items()}
    local = None if nodes else _devices(0)
    found = []
    for nic in [fabric.nic_by_id[each] for each in wanted] or fabric.nics:
        pid = hosts.get(nic.host, 0)
        devices = local if local is not None else _devices(pid) if pid else {}
        if nic.ip in devices:
            found.append(Source(nic, devices[nic.ip], pid))
        elif wanted:
            raise InputError(f"--nic {nic.id}: no interface here has its address, {ip_text(nic.ip)}")
    if not found:
        raise InputError(
            "no NIC of the fabric is on this machine: run this on a host of the fabric, or on a lab's files"
        )
    return found


def _devices(pid: int) -> Mapping[int, str]:
    """Return by address the interface that has it."""
    with entered(pid):
        try:
            done = subprocess.run(["ip", "-j", "-4", "addr", "show"], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise PrerequisiteError(f"ip(8) does not list the addresses of this machine: {error}") from None
    return {
        parse_ip(address["local"]): str(device["ifname"])
        for device in json.loads(done.stdout)
        for address in device.get("addr_info", ())
    }


def _object(path: Path) -> Mapping[str, object]:
    try:
        found = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(one_line(f"{path}: no JSON: {error}")) from None
    if not isinstance(found, dict):
        raise InputError(f"{one_line(str(path))}: must be a JSON object, is {shown(found)}")
    return found
