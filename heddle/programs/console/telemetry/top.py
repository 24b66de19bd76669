"""`heddle top`: show rates, marks, pauses, queue depths and drops of ports live."""

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import grpc
from rich.console import Console
from rich.live import Live
from rich.table import Table

from heddle.controller.model.error import InputError, UnavailableError
from heddle.programs.console import show as screen
from heddle.programs.console.client import Client, connected
from heddle.programs.console.jobs import all_jobs
from heddle.programs.console.telemetry.rates import SORT_KEYS, Board, PortRates
from heddle.v1 import heddle_pb2 as pb

ONCE_S = 6.0
"""How long `--once` waits for the second sample of every port: agents sample every second or faster."""

FRAME_LINES = 7
MAX_JOBS_NAMED = 5
ROWS_WHEN_PIPED = 40
JOBS_EVERY_S = 5.0
"""How often jobs are read: all of them on a fabric that hashes, else one page, for what jobs have in common."""
HOT, WARM = 0.95, 0.7
WIDE = 120
UNKNOWN = "?"
"""Shown instead of a rate until a port has two samples."""


class Plans(NamedTuple):
    """Plans of jobs without flows, and when they were read."""

    plans: tuple[pb.JobPlan, ...]
    read_s: float


class _PortStream:
    """Reads the stream of samples in a thread and keeps the board up to date."""

    def __init__(self, client: Client, ports: Sequence[str]) -> None:
        topology = client.fabric.GetTopology(pb.GetTopologyRequest())
        self._board = Board({link.src: link.capacity_bps for link in topology.links})
        self._client, self._hashes, self._jobs = client, topology.hashes, Plans((), -JOBS_EVERY_S)
        self._lock = threading.Lock()
        self._ended: grpc.RpcError | None = None
        self._call = client.telemetry.WatchPorts(pb.WatchPortsRequest(ports=ports))
        self._thread = threading.Thread(target=self._read, name="ports", daemon=True)
        self._thread.start()

    def rows(self, sort: str) -> list[PortRates]:
        """Return the current rows; raises the error that ended the stream."""
        if self._ended is not None:
            raise self._ended
        with self._lock:
            return self._board.rows(sort)

    def plans(self) -> tuple[pb.JobPlan, ...]:
        """Return the plans of jobs, without flows."""
        now_s = time.monotonic()
        if now_s - self._jobs.read_s >= JOBS_EVERY_S:
            first = pb.ListJobsRequest(without_flows=True)
            found = all_jobs(self._client, without_flows=True) if self._hashes else self._client.jobs.ListJobs(first)
            self._jobs = Plans(tuple(found.jobs), now_s)
        return self._jobs.plans

    def complete(self) -> bool:
        """Return whether every port has rates."""
        with self._lock:
            return self._ended is not None or self._board.complete()

    def close(self) -> None:
        """End the stream."""
        self._call.cancel()
        self._thread.join(2)

    def _read(self) -> None:
        try:
            for sample in self._call:
                with self._lock:
                    self._board.put(sample)
        except grpc.RpcError as error:
            self._ended = error


def top(server: str, ports: Sequence[str], *, sort: str, interval_s: float, once: bool, as_json: bool) -> None:
    """Show the ports until interrupted, or once."""
    if sort not in SORT_KEYS:
        raise InputError(f"--sort: there is no {sort!r}; sort by {', '.join(SORT_KEYS)}")
    with connected(server) as client, contextlib.closing(_PortStream(client, ports)) as reader:
        _wait(reader)
        rows = reader.rows(sort)
        if once and not rows:
            raise UnavailableError(f"no sample within {ONCE_S:g} s; does an agent run? (heddle agent)")
        if as_json:
            _print_json(rows, reader.plans())
            while not once:
                time.sleep(interval_s)
                _print_json(reader.rows(sort), reader.plans())
        elif once:
            out = screen.console()
            shown = len(rows) if out.is_terminal else ROWS_WHEN_PIPED
            out.print(table(rows, rows_shown=shown, sort=sort, width=out.width, plans=reader.plans()))
        else:
            _live(reader, sort, interval_s)


def _wait(reader: _PortStream) -> None:
    """Wait until every port has two samples, or some seconds."""
    ends = time.monotonic() + ONCE_S
    while not reader.complete() and time.monotonic() < ends:
        time.sleep(0.05)


def _live(reader: _PortStream, sort: str, interval_s: float) -> None:
    out = Console(highlight=False)
    with Live(console=out, screen=out.is_terminal, auto_refresh=False) as live:
        for rows in _every(reader, sort, interval_s):
            shown = max(1, out.size.height - FRAME_LINES)
            found = table(rows, rows_shown=shown, sort=sort, width=out.width, plans=reader.plans())
            live.update(found, refresh=True)


def _every(reader: _PortStream, sort: str, interval_s: float) -> Iterator[list[PortRates]]:
    while True:
        yield reader.rows(sort)
        time.sleep(interval_s)


def table(
    rows: Sequence[PortRates], *, rows_shown: int, sort: str, width: int, plans: Sequence[pb.JobPlan] = ()
) -> Table:
    """Return the first rows as a table; stale ones are dim. A narrow terminal gets fewer columns, none cut.

    Where the fabric hashes, a line says how many paths of jobs probes have confirmed. Another one says how far the jobs
    are from the goal of a convergence, where that is known.
    """
    stale = sum(row.stale for row in rows)
    more = f", the first {rows_shown} shown" if len(rows) > rows_shown else ""
    title = f"{len(rows)} ports by {sort}{more}; {stale or 'none'} stale; marks, PFC and drops per second"
    if probed := [plan for plan in plans if plan.certificate.probed]:
        title += f"\n{paths_confirmed(probed)}"
    if plans and plans[0].certificate.below_goal:
        title += f"\n{screen.below_goal(plans[0].certificate.below_goal)}"
    found = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    columns = [column for column in _COLUMNS if width >= WIDE or column.always]
    found.add_column("port", overflow="ellipsis", no_wrap=True)
    for column in columns:
        found.add_column(column.name, justify="right", no_wrap=True, min_width=column.width)
    found.add_column("", no_wrap=True, min_width=len("stale"))
    for row in rows[:rows_shown]:
        cells = (column.cell(row) for column in columns)
        found.add_row(row.port, *cells, "stale" if row.stale else "", style="dim" if row.stale else None)
    return found


def paths_confirmed(plans: Sequence[pb.JobPlan]) -> str:
    """Return how many paths of all jobs are confirmed, and of which jobs not all are."""
    proofs = [plan.certificate for plan in plans]
    oldest_ms = min(
        (each.oldest_confirmation_unix_ms for each in proofs if each.oldest_confirmation_unix_ms), default=0
    )
    seen, flows = sum(each.paths_confirmed for each in proofs), sum(plan.flow_count for plan in plans)
    behind = [plan.job_id for plan in plans if plan.certificate.paths_confirmed < plan.flow_count]
    more = f"; not all of {', '.join(behind[:MAX_JOBS_NAMED])}" if behind else ""
    return f"probed: {screen.confirmed_paths(seen, flows, oldest_ms)}{more}"


def _coloured(text: str, share: float) -> str:
    style = "red" if share >= HOT else "yellow" if share >= WARM else ""
    return f"[{style}]{text}[/]" if style else text


def _bad(value: float, text: str, style: str) -> str:
    """Return a dot for 0, else the coloured text."""
    return f"[{style}]{text}[/]" if value else "·"


def size(count: int) -> str:
    """Return a number of bytes with three digits and its unit."""
    for unit, one in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= one:
            return f"{count / one:.3g} {unit}"
    return f"{count} B"


class _Column(NamedTuple):
    """A column: its title, the text of a cell, its width, and whether narrow terminals have it too."""

    name: str
    cell: Callable[[PortRates], str]
    width: int
    always: bool = True


_COLUMNS = (
    _Column("util", lambda row: _coloured(f"{row.utilisation:.1%}", row.utilisation) if row.interval_s else UNKNOWN, 6),
    _Column("out", lambda row: screen.rate(row.tx_bps) if row.interval_s else UNKNOWN, 11),
    _Column("in", lambda row: screen.rate(row.rx_bps) if row.interval_s else UNKNOWN, 11, False),
    _Column("ECN", lambda row: _bad(row.ecn_share, f"{row.ecn_share:.1%}", "yellow"), 6),
    _Column("marks", lambda row: _bad(row.ecn_per_s, f"{row.ecn_per_s:.0f}", "yellow"), 6, False),
    _Column("PFC in", lambda row: _bad(row.pfc_rx_per_s, f"{row.pfc_rx_per_s:.0f}", "magenta"), 6),
    _Column("PFC out", lambda row: _bad(row.pfc_tx_per_s, f"{row.pfc_tx_per_s:.0f}", "magenta"), 7, False),
    _Column("paused", lambda row: _bad(row.paused_share, f"{row.paused_share:.1%}", "magenta"), 6),
    _Column("depth", lambda row: _bad(row.depth_bytes, size(row.depth_bytes), "cyan"), 8),
    _Column("max", lambda row: _bad(row.max_depth_bytes, size(row.max_depth_bytes), "cyan"), 8, False),
    _Column("drops", lambda row: _bad(row.drops_per_s, f"{row.drops_per_s:.0f}", "bold red"), 6),
)


def _print_json(rows: Sequence[PortRates], plans: Sequence[pb.JobPlan]) -> None:
    fields = ("paths_confirmed", "oldest_confirmation_unix_ms", "probes")
    jobs = [
        {
            "job_id": plan.job_id,
            "flow_count": plan.flow_count,
            **{name: getattr(plan.certificate, name) for name in fields},
        }
        for plan in plans
        if plan.certificate.probed
    ]
    found = {
        "unix_ms": time.time_ns() // 1_000_000, "ports": [row.as_dict() for row in rows], "probed_jobs": jobs,
        "below_goal": plans[0].certificate.below_goal if plans else 0.0,
    }  # fmt: skip
    json.dump(found, sys.stdout)
    print(flush=True)
