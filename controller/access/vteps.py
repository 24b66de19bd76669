"""Decide for which VTEPs an agent or gateway may speak: a VTEP belongs to one host.

The fabric file names the hosts of its NICs. Of other addresses, those of the config key `vteps` for example, the
certificate says whose they are: `heddle pki issue … --ip`. What an agent is sent are the VPCs with endpoints at its
VTEP, so another's would show it another tenant's network.
"""

from collections.abc import Collection, Mapping
from ipaddress import IPv4Address

from heddle.controller.access.caller import Caller
from heddle.controller.model.error import DeniedError
from heddle.controller.model.fabric import Fabric
from heddle.foundation.identity import Role


def check_vteps(
    caller: Caller, given: Mapping[str, IPv4Address], fabric: Fabric, hosts: Collection[IPv4Address]
) -> None:
    """Raise DeniedError for a VTEP, by field, that is not the caller's; `hosts` are those of the attached hosts.

    An agent has its own VTEPs alone. A gateway's are no host's, but for those of a host of its name; an operator may
    be all.
    """
    for field, vtep in given.items():
        owners = {nic.host for nic in fabric.nics if nic.ip == int(vtep)}
        if caller.name in owners or vtep in caller.addresses:
            continue
        if caller.role is Role.AGENT:
            raise DeniedError(
                f"hello.{field}: {vtep} is no VTEP of {caller.who}: neither a NIC of this host in the fabric file nor "
                f"in the certificate (`heddle pki issue … agent {caller.name} --ip {vtep}`)"
            )
        if caller.role is Role.GATEWAY and (owners or vtep in hosts):
            raise DeniedError(f"hello.{field}: {vtep} is a host's, and not in the certificate of {caller.who} (--ip)")
