"""The declarations of the JSON documents: path, parameters, shape and function of each."""

from collections.abc import Callable, Mapping
from functools import partial

from heddle.controller.dashboard.documents.congestion import congestion_document
from heddle.controller.dashboard.documents.fabric import fabric_text
from heddle.controller.dashboard.documents.health import health_document
from heddle.controller.dashboard.documents.jobs import job_document, jobs_document
from heddle.controller.dashboard.documents.matrix import MEASURED, PLANNED, matrix_document
from heddle.controller.dashboard.documents.moment import Moment
from heddle.controller.dashboard.documents.networks import networks_document
from heddle.controller.dashboard.documents.past import MAX_EVENTS, past_state_text, timeline_document
from heddle.controller.dashboard.documents.ports import link_out_of, port_document, window_s
from heddle.controller.dashboard.documents.shapes import fabric as fabric_shapes
from heddle.controller.dashboard.documents.shapes import jobs as jobs_shapes
from heddle.controller.dashboard.documents.shapes import site as site_shapes
from heddle.controller.dashboard.documents.shapes import state as state_shapes
from heddle.controller.dashboard.documents.shapes.site import HttpCounts
from heddle.controller.dashboard.parameters import Parameter
from heddle.controller.dashboard.pulse import Pulse
from heddle.controller.dashboard.recent import Recent
from heddle.controller.dashboard.routes import Document
from heddle.controller.dashboard.sources import Sources
from heddle.controller.runtime.telemetry import PortPast

FROM = Parameter("from_ms", "begin, Unix time in milliseconds", is_number=True)
TO = Parameter("to_ms", "end, Unix time in milliseconds", is_number=True)
LIMIT = Parameter("limit", "the number of events at most, the newest", is_number=True, minimum=1, maximum=MAX_EVENTS)
AT = Parameter("at_ms", "a moment, Unix time in milliseconds", is_number=True, is_required=True)
OF = Parameter("of", "what the load is of; measured where there is telemetry", choices=(MEASURED, PLANNED))
SWITCH = Parameter("switch", "the id of a switch")
PORT = Parameter("port", "the number of a port", is_number=True, maximum=2**32 - 1)
NIC = Parameter("nic", "the id of a NIC")
JOB = Parameter("job_id", "the id of a job")


class Interface:
    """The documents of one control loop."""

    def __init__(
        self, sources: Sources, pulse: Pulse, recent: Recent, boot: str, http: Callable[[], HttpCounts]
    ) -> None:
        self._sources, self._telemetry = sources, sources.feeds.telemetry
        self._pulse, self._recent, self._boot, self._http = pulse, recent, boot, http
        self._fabric = ""

    def documents(self) -> tuple[Document, ...]:
        """Return the declarations."""
        now = partial(Moment.of, self._sources)
        whole = partial(Moment.of, self._sources, is_whole=True)
        return (
            Document("/api/fabric", "The fabric as built", fabric_shapes.Fabric, self._fabric_text),
            Document("/api/matrix", "Load of leaf by spine", fabric_shapes.Matrix, matrix_document, (), (OF,), now),
            Document(
                "/api/ports/{switch}/{port}", "A port and what it did: by default in the last ten minutes",
                fabric_shapes.PortDocument, self._port, (SWITCH, PORT), (FROM, TO), now,
            ),
            Document(
                "/api/nics/{nic}", "A NIC and what it did", fabric_shapes.PortDocument, self._nic, (NIC,),
                (FROM, TO), now,
            ),
            Document("/api/jobs", "All jobs", jobs_shapes.Jobs, jobs_document, (), (), now),
            Document("/api/jobs/{job_id}", "A job", jobs_shapes.JobDocument, job_document, (JOB,), (), whole),
            Document(
                "/api/congestion", "Congested ports", state_shapes.CongestionDocument, congestion_document, moment=now
            ),
            Document("/api/timeline", "Events", state_shapes.Timeline, self._timeline, (), (FROM, TO, LIMIT), now),
            Document("/api/at", "The state of a recorded moment", state_shapes.StateOf, self._past, (), (AT,), now),
            Document("/api/networks", "Virtual networks", site_shapes.Networks, networks_document, moment=whole),
            Document("/api/health", "The controller", site_shapes.HealthDocument, self._health, moment=now),
        )  # fmt: skip

    def _fabric_text(self) -> str:
        """Return the fabric, which never changes while the controller has this life."""
        if not self._fabric:
            loop = self._sources.loop
            started_ms = loop.state.started_unix_ms or 0  # what was begun in this life is refused, or not done yet
            followed_ms = max((time for time in loop.state.cabling.followed if time <= started_ms), default=0)
            self._fabric = fabric_text(loop.state.fabric, loop.published_unix_ms(followed_ms))
        return self._fabric

    def _port(
        self, moment: Moment, switch: str, port: int | None, from_ms: int | None = None, to_ms: int | None = None
    ) -> Mapping[str, object]:
        since_s, until_s = window_s(moment, from_ms, to_ms)
        link, _ = link_out_of(moment.state, switch, port)
        history = self._telemetry.history
        past: PortPast = (history or self._recent).port(link.src, since_s, until_s)
        return {**port_document(moment, past, switch, port)}

    def _nic(
        self, moment: Moment, nic: str, from_ms: int | None = None, to_ms: int | None = None
    ) -> Mapping[str, object]:
        return self._port(moment, nic, None, from_ms, to_ms)

    def _timeline(
        self, moment: Moment, from_ms: int | None = None, to_ms: int | None = None, limit: int | None = None
    ) -> Mapping[str, object]:
        return timeline_document(moment, self._telemetry, from_ms, to_ms, limit)

    def _past(self, moment: Moment, at_ms: int) -> str:
        return past_state_text(moment, self._telemetry, self._boot, at_ms)

    def _health(self, moment: Moment) -> Mapping[str, object]:
        since_ms, lags_ms = dict(self._pulse.since_ms), tuple(self._pulse.lags_ms)
        agents = frozenset(self._sources.attached.probe_agents.by_host)
        return health_document(moment, since_ms, lags_ms, self._http(), agents)
