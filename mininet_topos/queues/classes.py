"""The tc classes of a switch port: the real queues in which the frames of the queue model wait.

    htb 1:  -  1:1 the link's rate  -  1:10 + p  one class per priority in use
                                       1:1f      the kick class: its queue holds no frame

The leaf of a pausable priority is a token bucket (tbf) without an effective limit, which a pause sets to almost zero
(see `tx_pause`); other leaves are plain queues. Every leaf holds more than the queue model admits, so no frame is lost
uncounted. Each class has a small rate of its own and borrows the rest: HTB serves borrowing classes by priority, which
gives CNPs strict priority, and those of one priority in proportion to their quanta, which are the classes' weights.
"""

import subprocess
from collections.abc import Iterable

from heddle.controller.model.error import PrerequisiteError
from heddle.mininet_topos.queues.settings import MAX_FRAME_BYTES, PAUSABLE_FRAME_BYTES, QueueSettings
from heddle.mininet_topos.wire.shaping import BURST_TIME_S

ROOT_MAJOR = 1
KICK_MINOR = 0x1F
OPEN_RATE_BYTES_PER_S = 1_250_000_000
OPEN_BURST_BYTES = 1 << 20
LEAF_LIMIT_BYTES = 64 << 20
OWN_SHARE = 0.02


def class_minor(priority: int) -> int:
    """Return the minor number of a priority's class, which the queue model writes into `skb->priority`."""
    return 0x10 + priority


def bucket_handle(priority: int) -> int:
    """Return the qdisc handle of a pausable priority's token bucket."""
    return 0x20 + priority


def class_commands(interface: str, rate_bps: int, settings: QueueSettings) -> list[str]:
    """Return the `tc` commands (without "tc") that create the classes of a port."""
    burst = max(MAX_FRAME_BYTES, int(rate_bps * BURST_TIME_S / 8))
    bound = f"ceil {rate_bps}bit burst {burst} cburst {burst}"
    commands = [
        f"qdisc replace dev {interface} root handle {ROOT_MAJOR}: htb default {class_minor(0):x}",
        f"class add dev {interface} parent 1: classid 1:1 htb rate {rate_bps}bit {bound}",
    ]
    own = max(1, int(rate_bps * OWN_SHARE))
    least = min((each.weight for each in settings.classes if not each.strict), default=1)
    for priority in settings.used:
        of = settings.by_priority[priority]
        minor, order = class_minor(priority), 0 if of.strict else 1
        quantum = MAX_FRAME_BYTES if of.strict else MAX_FRAME_BYTES * of.weight // least
        commands.append(
            f"class add dev {interface} parent 1:1 classid 1:{minor:x} htb rate {own}bit {bound} "
            f"prio {order} quantum {quantum}"
        )
        leaf = f"qdisc add dev {interface} parent 1:{minor:x} handle {bucket_handle(priority):x}:"
        if priority in settings.pausable:
            rate = f"rate {8 * OPEN_RATE_BYTES_PER_S}bit burst {OPEN_BURST_BYTES}"
            commands.append(f"{leaf} tbf {rate} limit {LEAF_LIMIT_BYTES}")
        else:
            commands.append(f"{leaf} bfifo limit {LEAF_LIMIT_BYTES}")
    commands.append(f"class add dev {interface} parent 1: classid 1:{KICK_MINOR:x} htb rate {own}bit")
    commands.append(f"qdisc add dev {interface} parent 1:{KICK_MINOR:x} handle 2f: bfifo limit 1")
    return commands


def frame_limit(priority: int, settings: QueueSettings) -> int:
    """Return the largest frame in bytes that a priority's class accepts."""
    return PAUSABLE_FRAME_BYTES if priority in settings.pausable else MAX_FRAME_BYTES


def add_classes(ports: Iterable[tuple[str, int]], settings: QueueSettings) -> None:
    """Create the classes of interfaces (name, rate) in this network namespace; raises PrerequisiteError."""
    batch = "\n".join(command for name, rate in ports for command in class_commands(name, rate, settings))
    done = subprocess.run(["tc", "-batch", "-"], input=batch, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise PrerequisiteError(f"tc refused to create the links' classes: {done.stderr.strip().splitlines()[0]}")
