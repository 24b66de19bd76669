"""Metrics of the isolation of virtual networks, as the controller verifies it."""

from collections import Counter
from collections.abc import Iterator, Mapping

from heddle.controller.brain.virtual_networks import Networks
from heddle.controller.dashboard.exposition import Family, label_text, lines
from heddle.controller.views.isolation import Checked, Verdict, isolation_of

VPCS = Family("heddle_isolation_vpcs", "gauge", "VPCs by the verdict on their isolation.", ("verdict",))
DIFFERING = Family(
    "heddle_isolation_differing_paths",
    "gauge",
    "Paths that the installed tables of a gateway or balancer open or close against the intent.",
    ("gateway",),
)
CHECKED = Family(
    "heddle_isolation_checked_timestamp_seconds",
    "gauge",
    "When the tables of a gateway or balancer were verified last, Unix time.",
    ("gateway",),
)
KEPT = Family(
    "heddle_gateways_kept_vpcs",
    "gauge",
    "VPCs that a gateway, balancer or host does not serve as wanted: an earlier state of them goes on.",
    ("gateway",),
)
UNKNOWN = Family(
    "heddle_gateways_unknown_vpcs",
    "gauge",
    "VPCs that a gateway, balancer or host serves and the controller does not know.",
    ("gateway",),
)
FAMILIES = (DIFFERING, CHECKED, VPCS, KEPT, UNKNOWN)


def isolation_lines(networks: Networks, checked: Mapping[str, Checked], now_unix_ms: int) -> Iterator[str]:
    """Yield the metrics."""
    found = Counter(each.verdict for each in isolation_of(networks, checked, now_unix_ms).values())
    verified = [(label_text(("gateway", name)), each) for name, each in checked.items() if not each.failure]
    yield from lines(DIFFERING, [(label, each.total) for label, each in verified])
    yield from lines(CHECKED, [(label, each.unix_ms / 1_000) for label, each in verified])
    yield from lines(VPCS, [(label_text(("verdict", each)), found[each]) for each in Verdict])
    known = [(label_text(("gateway", name)), each) for name, each in networks.gateways.items()]
    yield from lines(KEPT, [(label, len(each.kept)) for label, each in known if each.kept or not each.is_host])
    unknown = [(label, len(networks.unknown_at(each)), each.is_host) for label, each in known]
    yield from lines(UNKNOWN, [(label, count) for label, count, is_host in unknown if count or not is_host])
