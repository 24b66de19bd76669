"""`heddle topology` and `heddle explain`: commands of the FabricService."""

import json
import sys

from rich.markup import escape
from rich.table import Table

from heddle.controller.model.error import InputError
from heddle.programs.console import show as screen
from heddle.programs.console.client import connected
from heddle.programs.console.jobs import as_dict
from heddle.v1 import heddle_pb2 as pb

MAX_LINKS_SHOWN = 60
_CABLING = ("wrong", "missing", "", "unknown")
"""The order of links: unknown cables may be many."""


def topology(server: str, *, watch: bool, as_json: bool, sids: bool = False) -> None:
    """Print the topology, or its SRv6 prefixes, once or at every change."""

    def put(found: pb.Topology) -> None:
        if sids and not as_json:
            _print_sids(found)
        else:
            _print(found, as_json)

    with connected(server) as client:
        if not watch:
            put(client.fabric.GetTopology(pb.GetTopologyRequest()))
            return
        for found in client.fabric.WatchTopology(pb.GetTopologyRequest()):
            put(found)
            sys.stdout.flush()


def explain(server: str, flow_id: str, *, as_json: bool) -> None:
    """Print the path of a flow and the reason for each hop."""
    with connected(server) as client:
        found = client.fabric.Explain(pb.ExplainRequest(flow_id=flow_id))
    if as_json:
        json.dump(as_dict(found), sys.stdout)
        print()
        return
    print(found.text)
    for hop in found.hops:
        print(f"  {hop}")
    for path in found.paths:
        print(f"path {path}")
    print(f"shares links with: {', '.join(found.sharing_flows) or 'none'}")
    for move in found.moves:
        print(f"moved {move}")


def drain(server: str, target: str, *, undrain: bool, as_json: bool) -> None:
    """Drain a link, a switch or a port of a NIC, or return it to use, and print what moved."""
    with connected(server) as client:
        done = client.fabric.Drain(pb.DrainRequest(target=target, undrain=undrain))
    if as_json:
        json.dump(as_dict(done), sys.stdout)
        print()
        return
    what = "in use again" if undrain else "drained"
    fullest = f"the fullest link is at {done.certificate.max_link_utilisation:.1%}"
    print(f"{target} is {what}: {done.flows_moved} flows moved; {fullest} (bound {done.certificate.lower_bound:.1%})")


def cabling_text(link: pb.Link) -> str:
    """Return what is heard of a link's cable: nothing where it is as described."""
    if link.as_found and not link.cabling:
        return "as found"
    if link.cabling != "wrong":
        return {"missing": "MISSING", "unknown": "not heard"}.get(link.cabling, "")
    heard = f", {escape(link.heard)} is heard" if link.heard else ""
    return f"WRONG{heard}{', not used' if link.left_out else ''}"


def _print_sids(found: pb.Topology) -> None:
    """Print a line for each prefix that switches hold, and for each source address; raises InputError for none."""
    if not any(switch.HasField("srv6_locator") for switch in found.switches):
        raise InputError("--sids: packets name no paths here: the fabric file has no `steering: srv6`")
    for switch in found.switches:
        print(f"{switch.id} {switch.srv6_locator}")
    for link in found.links:
        if link.HasField("srv6_sid"):
            print(f"{link.id} {link.srv6_sid}")
    for nic in found.nics:
        print(f"{nic.id} {nic.srv6_source}")


def _print(found: pb.Topology, as_json: bool) -> None:
    if as_json:
        json.dump(as_dict(found), sys.stdout)
        print()
        return
    out = screen.console()
    switches = Table(title=f"topology, generation {found.generation}", title_justify="left")
    for name in ("switch", "role", "datapath id", "connected", "rules"):
        switches.add_column(name)
    for switch in found.switches:
        state = "–" if found.hashes else "yes" if switch.connected else "NO"
        state += ", drained" if switch.drained else ""
        state += ", NOT USABLE" if switch.fault else ""
        switches.add_row(switch.id, switch.role, f"{switch.datapath_id:#x}", state, str(switch.rules))
    out.print(switches)
    for switch in found.switches:
        if switch.fault:
            out.print(f"[bold red]{switch.id}[/]: {escape(switch.fault)}")
    for cause in found.miscablings:
        out.print(f"[bold red]cabling[/]: {escape(cause.text)}")
    for text in found.wrong_in_use:
        out.print(f"[bold red]cabling[/]: {escape(text)}")
    links = Table(title="links that are down, miscabled or carry plans, fullest first", title_justify="left")
    for name in ("link", "capacity", "state", "cabling", "planned", "measured"):
        links.add_column(name)
    rows = [
        link
        for link in found.links
        if not link.up or link.drained or link.cabling or link.as_found or link.planned_utilisation or link.fault
    ]
    rows.sort(key=lambda link: (link.up, _CABLING.index(link.cabling), -link.planned_utilisation, link.id))
    for link in rows[:MAX_LINKS_SHOWN]:
        state = "drained" if link.drained else "up" if link.up else "DOWN"
        state += ", BAD" if link.fault else ""
        measured = f"{link.measured_utilisation:.1%}" if link.measured else "?"
        planned = f"{link.planned_utilisation:.1%}"
        links.add_row(link.id, screen.rate(link.capacity_bps), state, cabling_text(link), planned, measured)
    out.print(links if rows else "every link is up and none carries a plan")
    for link in found.links[::2]:  # the directions of a cable follow each other
        if link.fault:
            out.print(f"[bold red]{link.id}[/]: {escape(link.fault)}")
    if len(rows) > MAX_LINKS_SHOWN:
        out.print(f"  … and {len(rows) - MAX_LINKS_SHOWN} more; --json prints all of them")
