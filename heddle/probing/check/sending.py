"""Send the probes of a check from this machine, all sources of a round at the same time."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from heddle.probing.check.conclusions import Heard
from heddle.probing.check.places import Replies
from heddle.probing.check.questions import Round, Variation
from heddle.probing.prober import Prober


def send_all(
    rounds: Sequence[Round], probers: Mapping[int, Prober], on_round: Callable[[Round], object] = lambda _: None
) -> Heard:
    """Return the replies to every round by source address; `on_round` is called before each."""
    heard: dict[Variation, dict[int, Replies]] = {}
    with ThreadPoolExecutor(max_workers=max(1, len(probers))) as pool:
        for each in rounds:
            on_round(each)
            waiting = {
                src_ip: pool.submit(probers[src_ip].send, questions, each.qpn, each.dscp)
                for src_ip, questions in each.questions.items()
            }
            heard[each.variation] = {src_ip: replies.result() for src_ip, replies in waiting.items()}
    return heard
