"""Choose which of several controllers to call: one that does not lead names the leader in a trailer of its refusal."""

from collections.abc import Iterable

LEADER = "heddle-leader"
"""The key of gRPC metadata that names the leader; its value is ADDR:PORT."""
Trailers = Iterable[tuple[str, str | bytes]] | None


def leader_in(trailers: Trailers) -> str | None:
    """Return the address of the leader, None where the trailers name none."""
    for key, value in trailers or ():
        if key == LEADER:
            return value if isinstance(value, str) else value.decode(errors="replace")
    return None


class LeaderAddress:
    """The address to call next: the leader's where it is known, otherwise each of a list in turn."""

    def __init__(self, listed: str) -> None:
        """Begin with the first of `listed`: ADDR:PORT or unix:/PATH, several with commas between them."""
        self._listed = [each.strip() for each in listed.split(",")]
        self._next = 0
        self.current = self._listed[0]

    def __len__(self) -> int:
        return len(self._listed)

    def failed(self, trailers: Trailers = None) -> None:
        """Note that a call to the current address failed, with these trailers; `current` is the next to call."""
        leader = leader_in(trailers)
        if leader is not None and leader != self.current:
            self.current = leader
            return
        if self.current == self._listed[self._next]:
            self._next = (self._next + 1) % len(self._listed)
        self.current = self._listed[self._next]
