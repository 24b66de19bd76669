"""The fewest plug moves and exchanges that make a small cabling right, by trying all.

Cabling is a set of cables, a cable a set of two names. Nothing here knows of cycles or paths.
"""

from collections import deque
from itertools import combinations

Cables = frozenset[frozenset[str]]


def exchanges_from(right: Cables) -> dict[Cables, int]:
    """Return, for every way to pair the same ends, the fewest exchanges of two plugs that lead to the right one."""
    ends = sorted(end for cable in right for end in cable)
    found, todo = {right: 0}, deque([right])
    while todo:
        cables = todo.popleft()
        for pair in combinations(ends, 2):
            if frozenset(pair) not in cables:
                renamed = dict(zip(pair, reversed(pair), strict=True))
                after = frozenset(frozenset(renamed.get(end, end) for end in cable) for cable in cables)
                if after not in found:
                    found[after] = found[cables] + 1
                    todo.append(after)
    return found


def fewest_moves(right: Cables, heard: Cables) -> int:
    """Return how many plugs must move so that as many cables as possible are right that keep one plug where it is."""
    wrong, wanted = sorted(heard - right, key=sorted), right - heard

    def best(at: int, left: Cables) -> tuple[int, int]:
        """Return the cables that can be made right of those from `at` on, and minus the plugs that move for it."""
        if at == len(wrong):
            return 0, 0
        options = [best(at + 1, left)]
        for cable in left:
            if cable & wrong[at]:
                count, moves = best(at + 1, left - {cable})
                options.append((count + 1, moves - 1))
        return max(options)

    return -best(0, wanted)[1]
