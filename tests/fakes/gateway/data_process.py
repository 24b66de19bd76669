"""A data process without packets, to test its supervisor: `python -m tests.fakes.gateway.data_process MODE FD`.

MODE: well (takes tables until it is stopped), crash (dies once it is ready), refuse (reports that it cannot run),
silent (stops responding once it is ready), torn (dies before it is ready).
"""

import os
import signal
import socket
import sys
import time

from heddle.dataplane.control.process import messages, segment
from heddle.dataplane.control.process.messages import Failed, Offer, Ready
from heddle.dataplane.control.process.shared import Word, shared_of

NEVER_S = 600


def main(mode: str, fd: int) -> int:
    end = socket.socket(fileno=fd)
    _, files = messages.receive(end)
    if mode == "torn":
        print("Traceback (most recent call last):\n  ...\nRuntimeError: torn apart", file=sys.stderr)
        return 3
    if mode == "refuse":
        messages.send(end, Failed(reason="eth9 is no interface here"))
        time.sleep(NEVER_S)
    words = shared_of(segment.attach(files[0])).words
    take(end, words)
    messages.send(end, Ready(backend="none"))
    if mode == "silent":
        time.sleep(NEVER_S)
    if mode == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    taken, ended = 1, []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
    while not words[Word.STOP] and not ended:
        words[Word.CALLS] += 1
        if words[Word.OFFERED] != taken:
            take(end, words)
            taken += 1
        time.sleep(0.001)
    return 0


def take(end: socket.socket, words) -> None:
    offer, files = messages.receive(end)
    assert isinstance(offer, Offer)
    tables = segment.attach(files[0])
    assert int(tables.arrays["generation"][0]) == offer.generation
    words[Word.IN_USE] = offer.generation


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
