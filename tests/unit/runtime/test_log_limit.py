"""A flood of lines of one kind and peer is cut and counted, and hides no other line."""

import logging

import pytest

from heddle.controller.runtime.limits.log_limit import KIND_BURST, MAX_KEYS, PEER_BURST, LogLimit


class Handler(logging.Handler):
    def __init__(self, lines):
        super().__init__()
        self._lines = lines

    def emit(self, record):
        self._lines.append(record.getMessage())


class Log:
    """A logger with a limit, and the lines that passed."""

    def __init__(self):
        self.now_s, self.lines = 0.0, []
        self.limit = LogLimit(lambda: self.now_s)
        handler = Handler(self.lines)
        handler.addFilter(self.limit)
        self.logger = logging.Logger("heddle.test")
        self.logger.addHandler(handler)


@pytest.fixture
def log():
    return Log()


def test_a_flood_of_one_peer_is_cut_and_counted_in_the_next_line_that_passes(log):
    for _ in range(50_000):
        log.logger.warning("%s: a rule was removed on the switch", "leaf1")
    assert len(log.lines) == PEER_BURST
    log.logger.warning("%s: a rule was removed on the switch", "leaf2")
    log.logger.warning("%s: no echo reply", "leaf1")
    assert log.lines[-2:] == ["leaf2: a rule was removed on the switch", "leaf1: no echo reply"]
    log.now_s += 2
    log.logger.warning("%s: a rule was removed on the switch", "leaf1")
    left_out = 50_000 - int(PEER_BURST)
    assert log.lines[-1] == f"leaf1: a rule was removed on the switch ({left_out} more like this were not logged)"
    assert log.limit.suppressed == left_out


def test_connections_of_one_host_are_one_peer_and_many_hosts_share_the_limit_of_the_kind(log):
    for port in range(1_000):
        log.logger.warning('session_closed %s reason="%s"', f"switch=? peer=10.0.0.1:{port + 1024}", "no Hello")
    assert len(log.lines) == PEER_BURST
    for host in range(5_000):
        log.logger.warning('session_closed %s reason="%s"', f"switch=? peer=10.1.{host // 250}.{host % 250}:1", "-")
    assert len(log.lines) == KIND_BURST
    assert len(log.limit._known) <= MAX_KEYS
