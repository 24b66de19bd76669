"""When an agent acts: sampling on a steady grid, connecting again after ever longer and never equal pauses.

Time and chance are arguments.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses between attempts: doubling up to a ceiling, and spread so that a thousand agents do not come at once.

    first_s, ceiling_s: 0.1 s for a broker that restarts; never over 2 s, so that an agent is back within 5 s of its
    broker. steady_s: a connection that held for so long was sound, and the next pause is a short one again; one that
    ends sooner (two agents of one id, say) goes on slowing down.
    """

    first_s: float = 0.1
    ceiling_s: float = 2.0
    steady_s: float = 5.0

    def delay_s(self, attempt: int, chance: float) -> float:
        """Return the pause before attempt 1, 2, …; `chance` in [0, 1) picks from its upper half."""
        full = self.ceiling_s
        if attempt < 64:
            full = min(full, self.first_s * 2.0 ** (max(attempt, 1) - 1))
        return full * (0.5 + 0.5 * chance)

    def next_attempt(self, attempt: int, held_s: float) -> int:
        """Return the number of the attempt that follows one whose connection held for `held_s` (0: it failed)."""
        return 1 if held_s >= self.steady_s else attempt + 1


def next_tick_ns(start_ns: int, period_ns: int, now_ns: int) -> tuple[int, int]:
    """Return the first moment of the grid after now, and its number: ticks that were missed are not made up for."""
    number = (now_ns - start_ns) // period_ns + 1
    return start_ns + number * period_ns, number
