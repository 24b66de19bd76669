"""Validate the configuration of a gateway's partner, as far as one of the two gateways can."""

from collections.abc import Iterator

from heddle.dataplane.config.local import LocalConfig, PortShare, Side
from heddle.dataplane.config.pair import Mode, PairConfig

MIN_INTERVAL_MS, MAX_INTERVAL_MS = 10, 10_000
MIN_MISSED, MAX_MISSED = 2, 100


def pair_problems(local: LocalConfig, pair: PairConfig) -> Iterator[str]:
    """Yield one line per problem, with its field."""
    if pair.partner_id == local.gateway_id or not pair.partner_id:
        yield f"partner.partner_id: {pair.partner_id!r} is not the other gateway's: it has to differ from gateway_id"
    if not pair.paths:
        yield "partner.paths: there has to be one at least"
    for number, path in enumerate(pair.paths):
        if path.listen == path.partner:
            yield f"partner.paths[{number}]: {path.listen} is both ends of it"
    if not MIN_INTERVAL_MS <= pair.interval_ms <= MAX_INTERVAL_MS:
        yield f"partner.interval_ms: {pair.interval_ms} is not within {MIN_INTERVAL_MS} to {MAX_INTERVAL_MS:,}"
    if not MIN_MISSED <= pair.missed <= MAX_MISSED:
        yield f"partner.missed: {pair.missed} is not within {MIN_MISSED} to {MAX_MISSED}"
    yield from _taken(local, pair)
    if pair.mode is Mode.ACTIVE_ACTIVE and local.nat_ports == PortShare():
        yield (
            "nat_ports: two gateways that both serve need ranges that do not overlap, "
            "such as 1024 to 32767 here and 32768 to 65535 there"
        )


def _taken(local: LocalConfig, pair: PairConfig) -> Iterator[str]:
    by_name = {interface.name: interface for interface in local.interfaces}
    for number, (name, address) in enumerate(pair.takes_over):
        place = f"partner.takes_over[{number}]"
        if name not in by_name:
            yield f"{place}.interface: {name!r} is none of the interfaces, {', '.join(by_name)}"
        elif by_name[name].address == address:
            yield f"{place}.address: {address} is this gateway's own on {name}; the partner's is wanted"
        elif (network := by_name[name].network) is not None and address not in network:
            yield f"{place}.address: {address} is not in {network}, the network of {name}"
        elif by_name[name].side is Side.CUSTOMER:
            yield f"{place}.interface: {name} is of the customer side, where gateways have no address of their own"
        elif name in [earlier for earlier, _ in pair.takes_over[:number]]:
            yield f"{place}.interface: {name} is there twice; the partner has one address on it"
    underlays = {interface.name for interface in local.interfaces if interface.side is Side.UNDERLAY}
    if not underlays & {name for name, _ in pair.takes_over}:
        yield "partner.takes_over: the partner's VTEP, its address on an underlay interface, is missing"
