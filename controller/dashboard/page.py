"""The status page at `/`: switches and jobs, in plain HTML without scripts or external resources."""

from collections.abc import Sequence
from html import escape

from controller.brain.state import State

CONTENT_TYPE = "text/html; charset=utf-8"
MAX_ROWS = 1_000
_STYLE = "body{font:15px sans-serif;margin:2em}td,th{text-align:left;padding:.2em 1em .2em 0}"


def page_text(state: State) -> str:
    """Return the page as HTML."""
    switches = [
        (
            name,
            "connected" if switch.connected else "NOT connected",
            len(switch.installed.rules) if switch.installed else 0,
        )
        for name, switch in state.switches.items()
    ]
    jobs = [
        (job.request.job_id, job.request.tenant, job.state, len(job.flows.flows), job.reason)
        for job in state.jobs.values()
    ]
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Heddle: {escape(state.fabric.name)}</title>"
        f"<style>{_STYLE}</style><h1>{escape(state.fabric.name)}</h1>"
        f"<p>Topology generation {state.topology_generation}; <a href=/metrics>metrics</a></p>"
        f"{_table('Jobs', ('job', 'tenant', 'state', 'flows', 'reason'), jobs)}"
        f"{_table('Switches', ('switch', 'session', 'rules'), switches)}</html>\n"
    )


def _table(title: str, heads: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> str:
    head = "".join(f"<th>{name}" for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}" for cell in row) for row in rows[:MAX_ROWS])
    more = f"<p>and {len(rows) - MAX_ROWS} more" if len(rows) > MAX_ROWS else ""
    return f"<h2>{title} ({len(rows)})</h2><table><tr>{head}{body}</table>{more}"
