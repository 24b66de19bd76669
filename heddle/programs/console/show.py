"""Print plans and rules as tables, and show progress on a terminal. JSON output uses nothing of this module.

Rich is imported when a table is made, not before.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from heddle.controller.model.address import ipv6_text
from heddle.controller.model.plan import AdmissionWindow, FlowPlan, JobPlan, Spraying, conserving_count
from heddle.controller.model.srv6 import Sids

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from heddle.controller.views.beside import Changes

MAX_FLOWS_SHOWN = 40
WIDTH_WHEN_PIPED = 120


def console() -> "Console":
    """Return a console on standard output, without colours for a pipe or where NO_COLOR is set."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else WIDTH_WHEN_PIPED, highlight=False, soft_wrap=False)


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """Show `text` with a spinner on standard error while the context lasts, if that is a terminal.

    Yields a function that shows another text; where there is no terminal, its first text is printed as one line.
    """
    if not sys.stderr.isatty():
        lines: list[str] = []

        def line(later: str) -> None:
            if not lines:
                print(f"heddle: {later.partition(' (')[0]}", file=sys.stderr, flush=True)
            lines.append(later)

        yield line
        return
    from rich.console import Console

    with Console(stderr=True).status(text) as status:
        yield status.update


def rate(bps: float) -> str:
    """Return a rate with three digits and its unit."""
    for unit, size in (("Tbit/s", 1e12), ("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if bps >= size:
            return f"{bps / size:.3g} {unit}"
    return f"{bps:.3g} bit/s"


def duration(ns: int) -> str:
    """Return a duration with three digits and its unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns} ns"


def plans(
    jobs: Sequence[JobPlan], hint: str | None = None, changed: "Changes | None" = None, sids: Sids | None = None
) -> None:
    """Print the certificate with a hint, what changed for kept jobs, then every job with its first flows.

    `sids` are the addresses of the fabric where packets name their paths.
    """
    out = console()
    if jobs:
        out.print(_certificate(jobs[0], hint, by_construction=sids is not None))
    if changed is not None:
        _changes(changed)
    for job in jobs:
        flows = job.flows.flows
        title = f"job {job.job_id}: {len(flows)} flows, {job.state}"
        if job.flows.predicted_completion_ns:
            title += f", one iteration takes {duration(job.flows.predicted_completion_ns)}"
        if count := conserving_count(flows):
            title += f"\n{conserving(count)}"
        for note in job.flows.notes:
            out.print(note)
        out.print(_flows(title, [flows[i] for i in range(min(len(flows), MAX_FLOWS_SHOWN))], sids))
        if len(flows) > MAX_FLOWS_SHOWN:
            out.print(f"  … and {len(flows) - MAX_FLOWS_SHOWN} more; --json prints all of them")


def conserving(count: int) -> str:
    """Return how many of a job's flows may exceed their rates, and what its figures assume."""
    flows = "1 flow may exceed its rate" if count == 1 else f"{count} flows may exceed their rates"
    return f"{flows}, up to that of the NIC, where a link is idle (work_conserving); figures assume that none does"


BY_CONSTRUCTION = "packets name their paths: by construction, without rules or probes"


def confirmed(paths: int, flows: int, oldest_unix_ms: int, probes: int) -> str:
    """Return what probes have confirmed of the plan of a job with so many flows, on a fabric that hashes."""
    if not oldest_unix_ms:
        return "no path is confirmed: a running controller finds the source ports by probes"
    return f"{confirmed_paths(paths, flows, oldest_unix_ms)}; {probes} probes for this plan"


def confirmed_paths(paths: int, flows: int, oldest_unix_ms: int) -> str:
    """Return how many flows' paths are confirmed, and when the oldest of them was seen."""
    if not oldest_unix_ms:
        return f"the paths of 0 of {flows} flows are confirmed"
    when = datetime.fromtimestamp(oldest_unix_ms / 1000, UTC).isoformat(" ", "milliseconds")
    return f"the paths of {paths} of {flows} flows are confirmed, the oldest at {when}"


def below_goal(speed: float) -> str:
    """Return by how much the mean speed of jobs is below that of a plan of all flows."""
    return f"the mean speed of the jobs is {speed:.3f} below that of a plan of all flows, to which they may converge"


def _spraying(found: Spraying) -> str:
    figures = (
        ("one path a flow", found.single_path_max_link_utilisation),
        ("random sets", found.random_sets_max_link_utilisation),
        ("all paths", found.all_paths_max_link_utilisation),
    )
    known = ", ".join(f"{name} {value:.3f}" for name, value in figures if value)
    advice = f"; {found.advice}" if found.advice else ""
    return f"{found.flows} flows; other paths instead: {known or 'not computed'}{advice}"


def _certificate(job: JobPlan, hint: str | None, *, by_construction: bool) -> "Table":
    from rich.table import Table

    proof = job.certificate
    table = Table(title="certificate", show_header=False, title_justify="left")
    ratio = proof.max_link_utilisation / proof.lower_bound if proof.lower_bound else 1.0
    verdict = "optimal" if ratio <= 1 else f"{ratio:.3f} x the bound"
    table.add_row(
        "max link utilisation", f"{proof.max_link_utilisation:.3f}  ({proof.bottleneck_link or 'no link used'})"
    )
    table.add_row(
        "no plan can beat", f"{proof.lower_bound:.3f}  (proof: {proof.lower_bound_kind}; this plan: {verdict})"
    )
    table.add_row("ECMP, median of 16 hashes", f"{proof.ecmp_max_link_utilisation:.3f}")
    table.add_row("E-ECMP, 4 queue pairs or more", f"{proof.e_ecmp_max_link_utilisation:.3f}")
    if proof.spraying is not None:
        table.add_row("spraying", _spraying(proof.spraying))
    table.add_row("links over their capacity", str(proof.links_over_capacity))
    table.add_row("flows slowed", str(proof.flows_slowed))
    table.add_row("max-min share of the demand", f"mean {proof.mean_share:.3f}, worst {proof.worst_share:.3f}")
    table.add_row("max NIC utilisation", f"{proof.max_nic_utilisation:.3f}  ({proof.bottleneck_nic or 'none'})")
    table.add_row("deadlock free", "yes" if proof.deadlock_free else "NO")
    table.add_row("solved in", duration(proof.solve_ns))
    table.add_row(
        "rules", f"{proof.rules_installed} for these jobs; {proof.max_rules_on_a_switch} on the fullest switch"
    )
    if proof.probed:
        seen = confirmed(proof.paths_confirmed, len(job.flows.flows), proof.oldest_confirmation_unix_ms, proof.probes)
        table.add_row("probed", seen)
    if by_construction:
        table.add_row("paths", BY_CONSTRUCTION)
    if hint is not None:
        table.add_row("hint", hint)
    return table


def _changes(found: "Changes") -> None:
    """Print what a plan changes for the jobs that it keeps."""
    from rich.table import Table

    out = console()
    for name, flows in found.lost.items():
        out.print(f"paths of kept jobs that {name} takes, planned again: {flows}")
    table = Table(title="kept jobs, before -> after", title_justify="left")
    for column in ("job", "flows", "moved", "own max utilisation", "flows slowed", "mean share", "worst share"):
        table.add_column(column, justify="left" if column == "job" else "right", overflow="fold")
    for job in found.jobs:
        before, after = job.before, job.after
        table.add_row(
            job.job_id,
            str(job.flows),
            str(len(job.moved)),
            f"{before.own_max_link_utilisation:.3f} -> {after.own_max_link_utilisation:.3f}",
            f"{before.flows_slowed} -> {after.flows_slowed}",
            f"{before.mean_share:.3f} -> {after.mean_share:.3f}",
            f"{before.worst_share:.3f} -> {after.worst_share:.3f}",
        )
    out.print(table)


def _flows(title: str, flows: Iterable[FlowPlan], sids: Sids | None) -> "Table":
    from rich.table import Table

    flows = list(flows)
    turns = any(flow.window.slots for flow in flows)
    table = Table(title=title, title_justify="left")
    selector = "port" if sids is None else "address"
    for name in ("flow", "from", "to", selector, "rate", *(["turn"] if turns else []), "switches"):
        table.add_column(name, justify="right" if name in ("port", "rate", "turn") else "left", overflow="fold")
    for flow in flows:
        name = flow.flow_id.split("/", 1)[1]
        switches = " ".join(link.split(">")[1].split(":")[0] for link in flow.links[:-1])
        port = f"{flow.udp_source_port}{' pinned' if flow.pinned else ''}"
        if sids is not None:
            port = ipv6_text(sids.destination(flow.links, flow.dst_nic))
        turn = [_turn(flow.window)] if turns else []
        table.add_row(name, flow.src_nic, flow.dst_nic, port, rate(flow.rate_bps), *turn, switches)
    return table


def _turn(window: AdmissionWindow) -> str:
    return f"{window.slot} of {window.slots}, {duration(window.slot_ns)} each" if window.slots else "always"


def rules(found: Sequence[Mapping[str, object]], groups: Sequence[Mapping[str, object]]) -> None:
    """Print every rule and group of every switch."""
    from rich.table import Table

    table = Table(title="rules", title_justify="left")
    for name in ("switch", "table", "priority", "match", "actions"):
        table.add_column(name, overflow="fold")
    for row in found:
        match, actions = row["match"], row["actions"]
        words = " ".join(f"{key}={value}" for key, value in match.items()) if isinstance(match, Mapping) else str(match)
        does = ", ".join(actions) if isinstance(actions, list) else str(actions)
        table.add_row(str(row["switch"]), str(row["table"]), str(row["priority"]), words or "any", does or "drop")
    out = console()
    out.print(table)
    for group in groups:
        out.print(f"  {group['switch']} group {group['group_id']}: {group['type']} {group['buckets']}")


def imbalance(found: Sequence[Mapping[str, object]]) -> None:
    """Print how evenly the underlay spreads traffic without a plan."""
    from rich.table import Table

    table = Table(title="unplanned traffic: shares of the source ports", title_justify="left")
    for name in ("choice", "uplinks or cables", "switches", "port blocks", "fullest over its fair share"):
        table.add_column(name, overflow="fold")
    for line in found:
        over = f"{line['imbalance']:+.1%}"
        table.add_row(*(str(line[key]) for key in ("stage", "choices", "places", "blocks")), over)
    if found:
        console().print(table)
