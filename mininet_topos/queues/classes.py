"""The traffic control classes behind a port: what the queue of `queue_model.c` really waits in.

    htb 1:  -  1:1 the link's rate  -  1:10 + p  one class per priority in use
                                       1:1f      the kick: a class whose queue holds nothing

A pausable priority's leaf is a token bucket of boundless rate, which a pause changes to next to nothing (see `gate`); the
others have a plain queue. Every leaf holds more than the queue model lets in, so that nothing is lost behind its back.
Classes have a small rate of their own and borrow the rest: HTB serves borrowers by priority, which makes CNPs strict.
"""

import subprocess
from collections.abc import Iterable

from controller.model.error import PrerequisiteError
from mininet_topos.queues.settings import MAX_FRAME_BYTES, PAUSABLE_FRAME_BYTES, QueueSettings

ROOT_MAJOR = 1
KICK_MINOR = 0x1F
OPEN_RATE_BYTES_PER_S = 1_250_000_000
OPEN_BURST_BYTES = 1 << 20
LEAF_LIMIT_BYTES = 64 << 20
OWN_SHARE = 0.02
BURST_TIME_S = 0.0005


def class_minor(priority: int) -> int:
    """Return the class of a priority: 1:1<priority>, which the queue model writes into each frame."""
    return 0x10 + priority


def bucket_handle(priority: int) -> int:
    """Return the handle of a pausable priority's token bucket."""
    return 0x20 + priority


def class_commands(interface: str, rate_bps: int, settings: QueueSettings) -> list[str]:
    """Return the `tc` commands (without the word tc) that give a port its classes."""
    burst = max(MAX_FRAME_BYTES, int(rate_bps * BURST_TIME_S / 8))
    bound = f"ceil {rate_bps}bit burst {burst} cburst {burst}"
    commands = [
        f"qdisc replace dev {interface} root handle {ROOT_MAJOR}: htb default {class_minor(0):x}",
        f"class add dev {interface} parent 1: classid 1:1 htb rate {rate_bps}bit {bound}",
    ]
    own = max(1, int(rate_bps * OWN_SHARE))
    for priority in settings.used:
        minor, order = class_minor(priority), 0 if priority in settings.strict else 1
        commands.append(
            f"class add dev {interface} parent 1:1 classid 1:{minor:x} htb rate {own}bit {bound} "
            f"prio {order} quantum {MAX_FRAME_BYTES}"
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
    """Return the largest frame that a priority's class takes."""
    return PAUSABLE_FRAME_BYTES if priority in settings.pausable else MAX_FRAME_BYTES


def add_classes(ports: Iterable[tuple[str, int]], settings: QueueSettings) -> None:
    """Give interfaces of this namespace, each with its rate, their classes; raises PrerequisiteError."""
    batch = "\n".join(command for name, rate in ports for command in class_commands(name, rate, settings))
    done = subprocess.run(["tc", "-batch", "-"], input=batch, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise PrerequisiteError(f"tc refused to give the links their classes: {done.stderr.strip().splitlines()[0]}")
