"""DCQCN's reaction point by the paper's equations, in exact fractions: a sorted list of events per epoch.

Zhu et al., SIGCOMM 2015, section 3.1. An epoch is the time between two CNPs. Its events follow from its start and the
packets sent: alpha decays every `alpha_timer`, an increase comes every `increase_timer` and with every `byte_counter`
bytes. So an epoch is one list of events, sorted by time and replayed.
"""

from fractions import Fraction
from itertools import count, pairwise, takewhile


def trajectory(parameters, limit, cnps, packets, moments):
    """Return (RC, RT, alpha) as fractions at each of `moments`.

    `cnps` are times, `packets` pairs of time and bytes. Events at the same time are processed timers first, then CNPs,
    then packets; a moment sees all of them. Only packets may have the same time as another event of their kind.
    """
    found = {moment: (Fraction(limit), Fraction(limit), Fraction(1)) for moment in moments if moment < _first(cnps)}
    state = (Fraction(limit), Fraction(limit), Fraction(1))
    for start, end in pairwise([*sorted(cnps), float("inf")]):
        state = _cut(parameters, state)
        observed = [moment for moment in moments if start <= moment < end]
        last = end if end != float("inf") else max([*observed, start]) + 1
        sent = [packet for packet in packets if start <= packet[0] < last]
        state = _epoch(parameters, limit, state, start, last, sent, observed, found)
    return [found[moment] for moment in moments]


def _first(cnps):
    return min(cnps, default=float("inf"))


def _cut(parameters, state):
    current, _, alpha = state
    g, minimum = Fraction(parameters["g"]), Fraction(parameters["minimum_rate"])
    return max(minimum, current * (1 - alpha / 2)), current, (1 - g) * alpha + g


def _epoch(parameters, limit, state, start, end, sent, observed, found):
    alphas = _every(start, parameters["alpha_timer"], end)
    timers = _every(start, parameters["increase_timer"], end)
    events = [(moment, 0, "alpha") for moment in alphas] + [(moment, 0, "timer") for moment in timers]
    events += [(moment, 1, "bytes") for moment in _byte_moments(parameters["byte_counter"], sent)]
    events += [(moment, 2, "observe") for moment in observed]
    current, target, alpha = state
    rounds = {"timer": 0, "bytes": 0}
    # Timers that expire at the time of the next CNP are processed before it.
    for moment, _, kind in sorted(events, key=lambda event: event[:2]):
        if kind == "observe":
            found[moment] = (current, target, alpha)
        elif kind == "alpha":
            alpha *= 1 - Fraction(parameters["g"])
        else:
            target = min(Fraction(limit), target + _step(parameters, rounds))
            current = (current + target) / 2
            rounds[kind] += 1
    return current, target, alpha


def _step(parameters, rounds):
    f = parameters["fast_recovery"]
    if max(rounds.values()) < f:
        return 0
    return parameters["hyper"] if min(rounds.values()) > f else parameters["additive"]


def _every(start, period, end):
    """Return start + period, start + 2 period, … up to and including `end`."""
    return list(takewhile(lambda moment: moment <= end, count(start + period, period)))


def _byte_moments(byte_counter, sent):
    """Return the time of the packet that completed each `byte_counter` bytes."""
    moments, total = [], 0
    for moment, size in sorted(sent, key=lambda packet: packet[0]):
        moments += [moment] * ((total + size) // byte_counter - total // byte_counter)
        total += size
    return moments
