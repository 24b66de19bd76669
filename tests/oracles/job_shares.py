"""Max-min fair shares of jobs by water-filling with exact numbers, independently of the planner."""

from collections import defaultdict
from fractions import Fraction


def job_shares(flows, capacity):
    """Return {job: (mean share, worst share)}; `flows` are (job, links, demand), with no links where there is no path.

    All rates rise together; a flow stops at its demand, or when a link of its is full.
    """
    rates = [Fraction(0)] * len(flows)
    left = {link: Fraction(bps) for link, bps in capacity.items()}
    rising = {number for number, (_, links, _) in enumerate(flows) if links is not None}
    while rising:
        crowd = defaultdict(int)
        for number in rising:
            for link in flows[number][1]:
                crowd[link] += 1
        step = min(flows[number][2] - rates[number] for number in rising)
        step = min([step, *(left[link] / count for link, count in crowd.items())])
        for number in rising:
            rates[number] += step
        for link, count in crowd.items():
            left[link] -= step * count
        full = {link for link in crowd if left[link] == 0}
        rising = {n for n in rising if rates[n] < flows[n][2] and full.isdisjoint(flows[n][1])}
    shares = defaultdict(list)
    for (job, _, demand), rate in zip(flows, rates, strict=True):
        shares[job].append(rate / demand)
    return {job: (sum(each) / len(each), min(each)) for job, each in shares.items()}
