"""One port: its peer and what it did over time."""

from collections import defaultdict
from collections.abc import Sequence

from heddle.controller.brain.state import State
from heddle.controller.dashboard.documents.moment import Moment
from heddle.controller.dashboard.documents.shapes.fabric import PortDocument, Series
from heddle.controller.model.admission import quoted
from heddle.controller.model.error import InputError, NotFoundError
from heddle.controller.model.fabric import DirectedLink, PortRef
from heddle.controller.runtime.telemetry import PortPast
from heddle.controller.views.link_states import link_states
from heddle.telemetry.samples.counters import PORT_COUNTERS, QUEUE_COUNTERS

LATELY_MS = 600_000
_QUEUES = {"ecn_marked_per_s": "ecn_marked_packets", "pfc_rx_per_s": "pfc_rx_frames", "pfc_tx_per_s": "pfc_tx_frames"}


def link_out_of(state: State, switch: str, port: int | None) -> tuple[DirectedLink, bool]:
    """Return the link out of a port of a switch, or out of a NIC (port None), and whether it is up."""
    name = switch if port is None else str(PortRef(switch, port))
    for number, link in enumerate(state.fabric.directed_links):
        if link.src == name:
            return link, bool(link_states(state).up[number])
    if port is None:
        raise NotFoundError(f"there is no NIC {quoted(switch)}")
    if switch not in state.switches:
        raise NotFoundError(f"there is no switch {quoted(switch)}")
    raise NotFoundError(f"switch {quoted(switch)} has no port {port} with a cable")


def window_s(moment: Moment, from_ms: int | None, to_ms: int | None) -> tuple[int, int]:
    """Return a time in seconds, by default the last ten minutes; raises InputError: in the future, or reversed."""
    until = moment.now_unix_ms if to_ms is None else to_ms
    since = until - LATELY_MS if from_ms is None else from_ms
    if since > moment.now_unix_ms:
        raise InputError("from_ms: is in the future")
    if since > until:
        raise InputError("from_ms: is after to_ms")
    return since // 1_000, until // 1_000


def port_document(moment: Moment, past: PortPast, switch: str, port: int | None) -> PortDocument:
    """Return a port with its past."""
    link, up = link_out_of(moment.state, switch, port)
    return {
        "switch": switch,
        "port": port,
        "peer": link.dst,
        "up": up,
        "capacity_bps": link.capacity_bps,
        "bucket_s": past.length_s,
        "series": _series(past, link.capacity_bps),
    }


def _series(past: PortPast, capacity_bps: int) -> Series:
    """Return the series; a recorded bucket without a row is one without growth."""
    ports = {row[0]: row[1:] for row in past.port}
    queues: dict[int, list[Sequence[int]]] = defaultdict(list)
    for start_s, _, *values in past.queues:
        queues[start_s].append(values)
    starts, length = list(past.starts_s), past.length_s
    sent, drops = PORT_COUNTERS.index("tx_bytes"), PORT_COUNTERS.index("drops")

    def of_port(column: int) -> list[int]:
        return [ports[start][column] if start in ports else 0 for start in starts]

    def per_s(counter: str) -> list[float]:
        column = QUEUE_COUNTERS.index(counter)
        return [round(sum(values[column] for values in queues[start]) / length, 3) for start in starts]

    return {
        "t_ms": [start * 1_000 for start in starts],
        "utilisation": [round(sent_bytes * 8 / length / capacity_bps, 4) for sent_bytes in of_port(sent)],
        "drops_per_s": [round(dropped / length, 3) for dropped in of_port(drops)],
        "ecn_marked_per_s": per_s(_QUEUES["ecn_marked_per_s"]),
        "pfc_rx_per_s": per_s(_QUEUES["pfc_rx_per_s"]),
        "pfc_tx_per_s": per_s(_QUEUES["pfc_tx_per_s"]),
        "depth_bytes": [max((values[-1] for values in queues[start]), default=0) for start in starts],
    }
