"""Max-min fair rates of flows on given paths, by progressive filling in exact fractions.

Simple rather than fast: a demo has hundreds of flows. The planner has its own implementation (`fluid`); the two share
no code, because each verifies the other.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction


def max_min_shares(paths: Sequence[Sequence[str]], capacity_bps: Mapping[str, int]) -> list[Fraction]:
    """Return each flow's max-min fair rate in bit/s; a flow is given as the links of its path.

    All rates grow together; the flows of a full link stop, the others continue. A flow that crosses a link twice counts
    once. Raises ValueError if a path is empty.
    """
    if not all(paths):
        raise ValueError("a flow without a link has no bounded rate")
    flows_on: dict[str, set[int]] = {}
    for flow, path in enumerate(paths):
        for link in path:
            flows_on.setdefault(link, set()).add(flow)
    left = {link: Fraction(capacity_bps[link]) for link in flows_on}
    rates = [Fraction(0)] * len(paths)
    growing = set(range(len(paths)))
    while growing:
        step = min(left[link] / len(flows_on[link]) for link in flows_on)
        for flow in growing:
            rates[flow] += step
        for link, flows in flows_on.items():
            left[link] -= step * len(flows)
        stopped = set().union(*(flows for link, flows in flows_on.items() if left[link] == 0))
        growing -= stopped
        flows_on = {link: rest for link, flows in flows_on.items() if (rest := flows - stopped)}
    return rates


def utilisation(
    paths: Sequence[Sequence[str]], rates_bps: Sequence[Fraction], capacity_bps: Mapping[str, int]
) -> dict[str, float]:
    """Return load / capacity of every link that carries a flow."""
    load: dict[str, Fraction] = {}
    for path, rate in zip(paths, rates_bps, strict=True):
        for link in path:
            load[link] = load.get(link, Fraction(0)) + rate
    return {link: float(bits / capacity_bps[link]) for link, bits in load.items()}
