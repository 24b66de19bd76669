"""The programs `heddle lab fabric`, `traffic`, `cut` and `heal`."""

import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.steering_traits import traits_of
from heddle.mininet_topos.playground.client import NAME, call, check_name, find_lab
from heddle.mininet_topos.playground.control import ControlServer, Message, Report
from heddle.mininet_topos.playground.fabric import LabFabric, lab_fabric
from heddle.mininet_topos.playground.lab import Playground
from heddle.mininet_topos.playground.result import TrafficResult, table
from heddle.mininet_topos.playground.routed import RoutedPlayground
from heddle.mininet_topos.playground.traffic import TrafficRequest, request_of
from heddle.mininet_topos.routed.routes import Routing

PIPED_WIDTH = 100


def run_fabric_lab(
    path: Path | None, name: str | None, as_json: bool, routing: Routing | None = None, *, srv6: bool = False,
    planes: int = 1,
) -> None:  # fmt: skip
    """Build the lab, print its addresses, and serve it until Ctrl-C or SIGTERM; then remove everything.

    With `routing`, or where the fabric's file says `steering: hash` or `srv6`, its switches are routers. With `srv6`
    packets name their paths, whatever the file says. The built-in fabric has so many planes.
    """
    # A shell starts background processes with SIGINT ignored; the lab must end on it all the same.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    wanted = lab_fabric(path, planes)
    if name is not None:
        check_name(name)
    begun = time.monotonic()
    with _progress() as progress, _playground(wanted, progress, routing, srv6=srv6) as playground:
        if name is not None:
            (playground.directory / NAME).write_text(name)
        with ControlServer(playground.directory, _operations(playground)):
            progress("")
            _print_ready(playground, wanted, time.monotonic() - begun, as_json)
            try:
                threading.Event().wait()
            except KeyboardInterrupt:
                progress("removing the lab")


def _playground(
    wanted: LabFabric, progress: Callable[[str], None], routing: Routing | None, *, srv6: bool = False
) -> Playground:
    if routing is None and traits_of(wanted.fabric).has_sessions:
        return Playground(wanted, progress)
    return RoutedPlayground(wanted, progress, routing or Routing.ROUTE, srv6=srv6)


def _operations(playground: Playground) -> dict[str, Callable[[Message, Report], Message]]:
    def traffic(request: Message, report: Report) -> Message:
        def on_progress(seconds: float, rate_bps: float) -> None:
            if not report({"seconds": round(seconds, 2), "rate_bps": round(rate_bps)}):
                playground.end_run()

        return playground.run(request_of(request), on_progress).to_json()

    def cut(request: Message, _report: Report) -> Message:
        cable, known_s = playground.cut(str(request.get("link")))
        return {"link": cable.id, "known_after_ms": round(known_s * 1e3)}

    def heal(request: Message, _report: Report) -> Message:
        cable, known_s = playground.heal(str(request.get("link")))
        return {"link": cable.id, "known_after_ms": round(known_s * 1e3)}

    return {"traffic": traffic, "cut": cut, "heal": heal}


def run_lab_traffic(request: TrafficRequest, name: str | None, as_json: bool) -> None:
    """Run a workload on a running lab and print its result; Ctrl-C ends the workload."""
    lab = find_lab(name)
    with _progress() as progress:

        def show(message: Message) -> None:
            rate = f"{message['rate_bps'] / 1e6:.1f} Mbit/s"
            progress(f"{request.text}: {message['seconds']:.0f} of {request.seconds:g} s, NICs receive {rate}")

        progress(f"{request.text}: starting")
        found = call(lab, {"op": "traffic", **asdict(request)}, show)
        progress("")
    if as_json:
        print(json.dumps(found))
        return
    result = TrafficResult.of_json(found)
    console = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH, highlight=False)
    console.print(table(result))
    for line in result.summary():
        console.print(line, markup=False, soft_wrap=True)


def cut_or_heal(operation: str, link: str, name: str | None) -> None:
    """Cut or repair a cable of a running lab, and print when it was known."""
    found = call(find_lab(name), {"op": operation, "link": link})
    done = {"cut": "is cut", "heal": "is repaired"}[operation]
    print(f"{found['link']} {done}; the controller knew after {found['known_after_ms']} ms")


def _print_ready(playground: Playground, wanted: LabFabric, built_s: float, as_json: bool) -> None:
    facts = playground.facts()
    if as_json:
        print(json.dumps({**facts, "built_s": round(built_s, 2)}), flush=True)
        return
    print(f"lab {playground.lab.id} is up after {built_s:.1f} s: {_described(wanted.fabric, wanted.scale)}")
    print(f"\n  {facts['url']}\n\nin another terminal, as root:")
    for what, command in playground.hints():
        print(f"  {what + ':':<29}{command}")
    print("\nCtrl-C removes the lab.", flush=True)


def _described(fabric: Fabric, scale: float) -> str:
    hosts, rates = len({nic.host for nic in fabric.nics}), sorted({nic.capacity_bps for nic in fabric.nics})
    rate = " and ".join(f"{bps / 1e6:g}" for bps in rates)
    scaled = f" (all rates divided by {scale:,.0f})" if scale != 1 else ""
    nics, ports, planes = len(fabric.ports_of), len(fabric.nics), len(set(fabric.plane_of_switch.values()))
    of_each = f"with {ports} ports in {planes} planes, " if ports > nics else ""
    return f"{len(fabric.switches)} switches, {hosts} hosts, {nics} NICs {of_each}of {rate} Mbit/s{scaled}"


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the present step on standard error: a live line on a terminal, else plain lines.

    "" clears the line. Without a terminal a line that differs from the last one in its numbers only is left out.
    """
    if not sys.stderr.isatty():
        shown: list[str] = []

        def line(text: str) -> None:
            step = text.partition(":")[0]
            if step and step not in shown[-1:]:
                shown.append(step)
                print(f"heddle: {step}", file=sys.stderr, flush=True)

        yield line
        return
    status = Console(stderr=True, highlight=False).status("")

    def show(text: str) -> None:
        if text:
            status.update(text)
            status.start()
        else:
            status.stop()

    try:
        yield show
    finally:
        status.stop()
