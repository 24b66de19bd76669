"""The fluid model by its definition, in fractions: recompute all rates at every event by progressive filling."""

from fractions import Fraction


def max_min(flows, capacity):
    """Return the max-min rate per flow name: raise all rates together until a link is full or a flow at its cap.

    `flows` has (links, cap or None) by name, `capacity` a fraction by link.
    """
    rates, growing, left = dict.fromkeys(flows, Fraction(0)), set(flows), dict(capacity)
    while growing:
        crowd = {link: sum(link in flows[name][0] for name in growing) for link in left}
        steps = [left[link] / crowd[link] for link in left if crowd[link]]
        steps += [flows[name][1] - rates[name] for name in growing if flows[name][1] is not None]
        step = min(steps)
        for name in growing:
            rates[name] += step
        for link in left:
            left[link] -= step * crowd[link]
        growing = {
            name
            for name in growing
            if all(left[link] > 0 for link in flows[name][0])
            and (flows[name][1] is None or rates[name] < flows[name][1])
        }
    return rates


def completions(flows, capacity):
    """Return each flow's completion time; `flows` has (links, cap or None, size, start) by name, sizes above 0.

    A flow that never gets bandwidth is left out.
    """
    rest = {name: Fraction(size) for name, (_, _, size, _) in flows.items()}
    now, found = Fraction(0), {}
    while rest:
        active = {name: flows[name][:2] for name in rest if flows[name][3] <= now}
        rates = max_min(active, capacity)
        waits = [flows[name][3] - now for name in rest if name not in active]
        waits += [rest[name] / rate for name, rate in rates.items() if rate > 0]
        if not waits:
            break
        wait = min(waits)
        now += wait
        for name, rate in rates.items():
            rest[name] -= rate * wait
            if rest[name] == 0:
                found[name] = now - flows[name][3]
                del rest[name]
    return found
