"""Scale how many examples property tests try: few in `make test`, twenty times as many in `make soak`."""

import os

FACTOR = float(os.environ.get("HEDDLE_EXAMPLES", "0.5"))
"""Of what a test names; `make soak` sets 10."""
MIN_EXAMPLES = 10


def examples(count: int) -> int:
    """Return how many examples a test tries that names `count`; never fewer than it names and 10."""
    return max(min(count, MIN_EXAMPLES), round(count * FACTOR))
