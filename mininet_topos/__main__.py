"""Start a lab and open Mininet's prompt on it: `python -m heddle.mininet_topos FABRIC [--controller PORT]`.

Without a controller the switches route by hash. At the prompt, `h1 ping -c 3 10.0.0.5` runs a command in a host.
"""

import argparse
import sys

from heddle.controller.config import load_fabric
from heddle.controller.model.error import HeddleError


def main() -> int:
    """Run the lab until the user leaves the prompt; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m heddle.mininet_topos", description=__doc__)
    parser.add_argument("fabric", help="the fabric file")
    parser.add_argument("--controller", type=int, metavar="PORT", help="OpenFlow port of a controller on 127.0.0.1")
    arguments = parser.parse_args()
    try:
        _run(arguments.fabric, arguments.controller)
    except HeddleError as fault:
        print(fault, file=sys.stderr)
        return fault.exit_status
    return 0


def _run(path: str, controller: int | None) -> None:
    fabric = load_fabric(path)
    from mininet.cli import CLI

    from heddle.mininet_topos.lab import Lab

    with Lab(fabric) as lab:
        if controller is None:
            lab.ecmp.load()
        else:
            lab.connect_controller(controller)
        for host, nics in lab.net.nics_of_host.items():
            print(f"{host}: {', '.join(f'{nic.id} {lab.net.device_of[nic.id]}' for nic in nics)}")
        CLI(lab.net.mininet)


if __name__ == "__main__":
    sys.exit(main())
