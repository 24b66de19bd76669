"""A flood of lines of one kind and peer is cut and counted, and hides no other line."""

import logging

import pytest

from heddle.controller.runtime.limits.log_limit import (
    CAUSE_BURST,
    KIND_BURST,
    MAX_KEYS,
    MAX_SUMMARIES,
    PEER_BURST,
    LogLimit,
)


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
        self.logger = logging.getLogger("heddle.test_log_limit")
        self.logger.handlers, self.logger.propagate = [handler], False


@pytest.fixture
def log():
    made = Log()
    yield made
    made.logger.handlers = []


def test_a_flood_of_one_peer_is_cut_hides_no_other_line_and_is_summarised_once(log):
    for _ in range(5_000):
        log.logger.warning("%s: a rule was removed on the switch", "leaf1")
    assert len(log.lines) == PEER_BURST
    log.logger.warning("%s: a rule was removed on the switch", "leaf2")
    log.logger.warning("%s: no echo reply", "leaf1")
    assert log.lines[-2:] == ["leaf2: a rule was removed on the switch", "leaf1: no echo reply"]
    left_out = 5_000 - int(PEER_BURST)
    log.limit.summarise()
    assert log.lines[-1] == f"leaf1: a rule was removed on the switch … again {left_out:,} times in the last minute"
    assert log.limit.suppressed == left_out
    written = len(log.lines)
    log.limit.summarise()
    assert len(log.lines) == written


def test_a_cause_that_repeats_without_an_end_takes_few_lines_a_minute_whatever_it_is_about(log):
    for second in range(1_200):
        log.now_s = float(second)
        log.logger.warning("%s: %s", f"job-{second}", f"lease {second} ended")
        log.logger.warning("%s: %s", "leaf3", f"session {second} ended: the switch closed the connection")
        log.logger.warning("%s: %s", "leaf4", "lacks 3 rules") if second % 300 == 0 else None
        if second % 60 == 59:
            log.limit.summarise()
    about = {name: [line for line in log.lines if name in line] for name in ("job-", "leaf3", "leaf4")}
    assert len(about["job-"]) < CAUSE_BURST + 20 * (20 + 1) + 1
    assert len(about["leaf3"]) < PEER_BURST + 20 * (6 + 1) + 1
    assert len(about["leaf4"]) == 4
    passed = [line for line in log.lines if "again" not in line]
    assert len(passed) + log.limit.suppressed == 1_200 + 1_200 + 4


def test_floods_of_ever_new_causes_take_a_bounded_number_of_summaries(log):
    for number in range(3_000):
        log.logger.warning("%s: %s", f"gateway-{number}", "x" * (number % 70))
    written = len(log.lines)
    assert written == KIND_BURST
    log.limit.summarise()
    assert len(log.lines) - written <= MAX_SUMMARIES + 1
    assert len(log.limit._known) <= MAX_KEYS


def test_connections_of_one_host_are_one_peer_and_many_hosts_share_the_limit_of_the_cause(log):
    for port in range(1_000):
        log.logger.warning('session_closed %s reason="%s"', f"switch=? peer=10.0.0.1:{port + 1024}", "no Hello")
    assert len(log.lines) == PEER_BURST
    for host in range(2_000):
        log.logger.warning('session_closed %s reason="%s"', f"switch=? peer=10.1.{host // 250}.{host % 250}:1", "-")
    assert len(log.lines) == PEER_BURST + CAUSE_BURST
    assert len(log.limit._known) <= MAX_KEYS
