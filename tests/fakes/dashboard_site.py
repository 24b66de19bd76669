"""Serve the dashboard's page over a state that the test sets: the API of controller/dashboard without a controller.

The page sees no difference from the controller: same addresses, same content security policy. What it serves is drawn
(`drawn_state`), so that a fabric of any size has load without switches.
"""

import json
import mimetypes
import random
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from heddle.controller.model.fabric import Fabric

STATIC = Path(__file__).parents[2] / "controller" / "dashboard" / "static"
POLICY = (
    "default-src 'self'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'"
)
VIEWS = ("fabric", "matrix", "jobs", "congestion", "timeline", "networks", "health")
Json = Any


def fabric_document(fabric: Fabric) -> dict[str, Json]:
    """Return a fabric as /api/fabric has it."""
    tiers = sorted({switch.role.tier for switch in fabric.switches})
    links: list[dict[str, Json]] = []
    near: dict[str, Json]
    for cable in fabric.cables:
        lower: dict[str, Json] = {"node": cable.lower.switch, "port": cable.lower.number}
        upper: dict[str, Json] = {"node": cable.upper.switch, "port": cable.upper.number}
        for name, ends in ((cable.up_link, (lower, upper)), (cable.down_link, (upper, lower))):
            links.append(
                {"id": name, "from": ends[0], "to": ends[1], "capacity_bps": cable.capacity_bps, "kind": "cable"}
            )
    for nic in fabric.nics:
        near, port = {"node": nic.id, "port": None}, {"node": nic.port.switch, "port": nic.port.number}
        for name, ends in ((nic.up_link, (near, port)), (nic.down_link, (port, near))):
            links.append({"id": name, "from": ends[0], "to": ends[1], "capacity_bps": nic.capacity_bps, "kind": "nic"})
    return {
        "fabric": fabric.name, "generation": 1, "tiers": len(tiers), "links": links,
        "switches": [
            {"id": item.id, "tier": tiers.index(item.role.tier), "role": item.role.value, "pod": None}
            for item in fabric.switches
        ],
        "nics": [
            {
                "id": nic.id, "host": nic.host, "switch": nic.port.switch, "port": nic.port.number,
                "rate_bps": nic.capacity_bps,
            }
            for nic in fabric.nics
        ],
        "as_found": None,
    }  # fmt: skip


def drawn_state(document: dict[str, Json], seed: int, *, jobs: int = 2, flows: int = 12) -> dict[str, Json]:
    """Return a state of random loads for a fabric's document, as /api/state has it."""
    draw = random.Random(seed)
    links, switches = len(document["links"]), len(document["switches"])
    load = [round(min(1.0, draw.betavariate(2, 3)), 3) for _ in range(links)]
    return {
        "at_ms": int(time.time() * 1000), "boot": "drawn", "sequence": seed,
        "links": {
            "utilisation": load, "planned": [round(0.9 * value, 3) for value in load],
            "pause_share": [0.0] * links, "up": [1] * links, "drained": [0] * links,
            "cabling": [0] * links, "bad": [0] * links,
        },
        "switches": {"connected": [1] * switches, "rules": [20] * switches, "rule_limit": [None] * switches,
                     "faults": {}},
        "jobs": [
            {
                "id": f"job-{at}", "tenant": f"team-{at % 3}", "state": "RUNNING", "flows": flows // jobs,
                "max_utilisation": 0.5, "bound": 0.5, "degraded": False,
            }
            for at in range(jobs)
        ],
        "congested": [],
        "miscablings": [],
        "counts": {"jobs": jobs, "flows": flows, "switches_connected": switches, "links_down": 0, "hot_links": 0,
                   "vpcs_violated": 0, "vpcs_kept": 0},
        "telemetry": {"configured": True, "age_ms": 400, "acts": True},
    }  # fmt: skip


class DashboardSite:
    """An HTTP server on loopback. `documents` maps paths under /api to JSON, or to a function of the query or body."""

    def __init__(self, documents: dict[str, Json], port: int = 0) -> None:
        self.documents = documents
        self._bodies: dict[str, tuple[Json, bytes]] = {}
        self.posted: list[tuple[str, str | None, Json]] = []
        self._clients: list[SimpleQueue[bytes | None]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.answer(self)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                site.posted.append((self.path, self.headers["X-CSRF-Token"], body))
                _reply(self, 200, "application/json", json.dumps(site.documents[self.path](body)).encode())

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path, _, query = request.path.partition("?")
        if path == "/api/stream":
            return self._stream(request)
        if path in self.documents:
            return _reply(request, 200, "application/json", self.body(path, query))
        file = STATIC / path.removeprefix("/static/") if path.startswith("/static/") else None
        if path == "/" or path.split("/")[1] in VIEWS:
            file = STATIC / "index.html"
        if file is not None and file.is_file():
            return _reply(request, 200, mimetypes.guess_type(file.name)[0] or "text/plain", file.read_bytes())
        return _reply(request, 404, "application/json", json.dumps({"error": f"no {path} here"}).encode())

    def body(self, path: str, query: str) -> bytes:
        """Return a document as JSON; one that has not changed is rendered once."""
        document = self.documents[path]
        if callable(document):
            return json.dumps(document(query)).encode()
        of, body = self._bodies.get(path, (None, b""))
        if of is not document:
            body = json.dumps(document, separators=(",", ":")).encode()
            self._bodies[path] = document, body
        return body

    def _stream(self, request: BaseHTTPRequestHandler) -> None:
        queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._clients.append(queue)  # first: what is published from here on is either in the queue or read below
        queue.put(_event("state", self.documents["/api/state"]))  # as the controller: a client begins with the newest
        request.send_response(200)
        request.send_header("Content-Type", "text/event-stream")
        request.end_headers()
        try:
            while (message := queue.get()) is not None:
                request.wfile.write(message)
                request.wfile.flush()
        except OSError:
            pass  # the page went away
        self._clients.remove(queue)

    def publish(self, event: str, document: Json) -> None:
        """Send an event to every page that is open; a state is also what /api/state serves from now on."""
        if event == "state":
            self.documents["/api/state"] = document
        message = _event(event, document)
        for client in list(self._clients):
            client.put(message)

    def close(self) -> None:
        for client in list(self._clients):
            client.put(None)
        self.server.shutdown()
        self.server.server_close()
        self._thread.join(5)


def _event(name: str, document: Json) -> bytes:
    return f"event: {name}\ndata: {json.dumps(document, separators=(',', ':'))}\n\n".encode()


def _reply(request: BaseHTTPRequestHandler, status: int, kind: str, body: bytes) -> None:
    request.send_response(status)
    request.send_header("Content-Type", kind)
    request.send_header("Content-Length", str(len(body)))
    request.send_header("Content-Security-Policy", POLICY)
    request.end_headers()
    request.wfile.write(body)
