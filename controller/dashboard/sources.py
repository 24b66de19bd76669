"""What the page, its documents and the metrics read, beside the loop's state."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from heddle.controller.probe_sessions.mesh import PingMesh
from heddle.controller.probe_sessions.service import Probing
from heddle.controller.runtime.attached import Attached
from heddle.controller.runtime.feeds import Feeds
from heddle.controller.runtime.journal.gate import Gate
from heddle.controller.runtime.limits.limited import Limit
from heddle.controller.runtime.limits.shares import Shares
from heddle.controller.runtime.loop import Loop


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The values of one controller that its HTTP interface reads."""

    loop: Loop
    feeds: Feeds
    attached: Attached
    previews: Shares
    gate: Gate = field(default_factory=Gate)
    limited: Counter[Limit] = field(default_factory=Counter)
    frames: Counter[str] = field(default_factory=Counter)
    """What became of LLDP frames, by `Hearing` of the southbound."""
    probing: Probing | None = None
    """What probes are used for on a fabric that hashes."""
    mesh: PingMesh | None = None
    unrecorded: Callable[[], int] = int
    """Returns how many turns a recording lacks."""
    suppressed_lines: Callable[[], int] = int
    """Returns how many log lines of the process were not written."""
