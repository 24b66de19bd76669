"""Read `port_addresses` of a fabric file: the IPv4 address of each port of a cable, by `switch:number`."""

from collections.abc import Mapping

from heddle.controller.model.address import parse_ip
from heddle.controller.model.admission import Problem, quoted
from heddle.controller.model.fabric import Fabric, PortRef

Addresses = tuple[tuple[PortRef, int], ...]


def port_addresses_of(listed: Mapping[str, str], fabric: Fabric) -> tuple[Addresses, list[Problem]]:
    """Return the addresses, or all problems: unknown ports, malformed addresses, one address twice."""
    ports = {str(port): port for port in fabric.cable_by_port}
    found: dict[int, PortRef] = {}
    problems = []
    for name, text in listed.items():
        place, port = f"port_addresses.{name}", ports.get(name)
        try:
            address = parse_ip(text)
        except ValueError:
            problems.append(Problem(place, f"{quoted(text)} is no IPv4 address"))
            continue
        if port is None:
            problems.append(Problem(place, "no cable between switches has this port"))
        elif address in found:
            problems.append(Problem(place, f"{found[address]} has the address {text} too"))
        else:
            found[address] = port
    return tuple((port, address) for address, port in found.items()), problems
