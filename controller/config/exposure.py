"""Find the listeners that other machines reach and that request no certificate."""

from heddle.controller.config.access import is_loopback
from heddle.controller.config.tls import TlsConfig
from heddle.controller.model.admission import Problem
from heddle.controller.model.server_address import UNIX, split_address


def exposed(tls: TlsConfig, **listeners: str) -> dict[str, str]:
    """Return the listeners, by config key, that are beyond loopback without TLS."""
    if tls.is_on:
        return {}
    return {key: address for key, address in listeners.items() if not _is_local(address)}


def refusal_of(address: str) -> str:
    """Return why an exposed listener is refused, and the remedy."""
    return (
        f"{address} is reachable from other machines, and every peer may do everything: set tls.certificate, tls.key "
        "and tls.ca, or bind to 127.0.0.1, or accept that by --insecure (config key insecure)"
    )


def metrics_problems(metrics: str, *, insecure: bool) -> list[Problem]:
    """Return why the metrics of a gateway or balancer may not be at this address: HTTP without TLS."""
    if insecure or _is_local(metrics):
        return []
    text = f"{metrics} is reachable from other machines without TLS: bind to 127.0.0.1, or set insecure to true"
    return [Problem("metrics", text)]


def _is_local(address: str) -> bool:
    return address.startswith(UNIX) or is_loopback(split_address(address)[0])
