"""`heddle ports --metrics`: the counters of a node's agent over HTTP, and addresses that cannot be used."""

from types import SimpleNamespace
from urllib.request import urlopen

import pytest

from heddle.controller.model.error import InputError, PrerequisiteError
from heddle.programs.console.launch.node.jobs import Counts
from heddle.programs.console.launch.node.metrics import metrics_served, ports_text

TIMEOUT_S = 60


def agent(**counts):
    jobs = SimpleNamespace(counts=Counts(**counts), known_jobs=lambda: (2, 1), reads_plans=False)
    return jobs, SimpleNamespace(late=4, refused=5, closed=6)


def test_each_counter_of_an_agent_is_a_metric():
    text = ports_text(*agent(planned=1, unplanned=2, unknown=3, forgotten=7))
    found = [line for line in text.splitlines() if not line.startswith("#")]
    assert found == [
        'heddle_ports_queue_pairs_total{outcome="planned"} 1',
        'heddle_ports_queue_pairs_total{outcome="unplanned"} 2',
        'heddle_ports_queue_pairs_total{outcome="unknown"} 3',
        'heddle_ports_queue_pairs_total{outcome="late"} 4',
        "heddle_ports_refused_requests_total 5",
        "heddle_ports_closed_connections_total 6",
        "heddle_ports_forgotten_jobs_total 7",
        'heddle_ports_jobs{plan="known"} 2',
        'heddle_ports_jobs{plan="none"} 1',
        "heddle_ports_reads_plans 0",
    ]


def test_metrics_are_served_while_the_agent_runs_and_one_address_once():
    counts = iter(range(9))
    with metrics_served("127.0.0.1:0", lambda: f"reads {next(counts)}\n") as bound:
        for expected in (b"reads 0\n", b"reads 1\n"):
            with urlopen(f"http://{bound}/metrics", timeout=TIMEOUT_S) as reply:
                assert reply.read() == expected
        with pytest.raises(PrerequisiteError, match=f"--metrics: {bound}: "), metrics_served(bound, str):
            pass
    with metrics_served(bound, str) as again:
        assert again == bound


@pytest.mark.parametrize("address", ["9105", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:65536", "unix:/s"])
def test_what_is_no_address_is_one_line(address):
    with pytest.raises(InputError, match="is no ADDR:PORT such as") as error, metrics_served(address, str):
        pass
    assert "\n" not in str(error.value)
