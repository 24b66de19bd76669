"""Count connections that make no call: gRPC reports nothing of a handshake that failed."""

import logging
from collections import OrderedDict, deque
from math import inf

_LOG = logging.getLogger("heddle.api")
POLL_S = 1.0
HANDSHAKE_MS = 5_000
REPORT_S = 60.0
MAX_PEERS = 4_096


class Connections:
    """How many connections began, and how many of them have made a call. `report` is called every POLL_S."""

    def __init__(self) -> None:
        self._begun = self._heard = self._reported = 0
        self._before: deque[int] = deque([0], maxlen=1 + int(HANDSHAKE_MS / 1000 / POLL_S))
        self._peers: OrderedDict[str, None] = OrderedDict()
        self._silent_until_s = -inf

    def began(self) -> None:
        """Count a connection; gRPC's threads call this."""
        self._begun += 1

    def made_call(self, peer: str) -> None:
        """Count the first call of a connection."""
        if peer not in self._peers:
            self._heard += 1
        self._peers[peer] = None
        self._peers.move_to_end(peer)
        if len(self._peers) > MAX_PEERS:
            self._peers.popitem(last=False)

    def report(self, now_s: float) -> None:
        """Log the connections that ended, or are silent, without a call; a line a minute at most."""
        refused = self._before[0] - self._heard
        self._before.append(self._begun)
        if refused > self._reported and now_s >= self._silent_until_s:
            text = "gRPC: TLS connections without a call: %d (refused certificates, plaintext, or silent peers)"
            _LOG.warning(text, refused - self._reported)
            self._reported, self._silent_until_s = refused, now_s + REPORT_S
