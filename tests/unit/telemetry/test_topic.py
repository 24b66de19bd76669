import pytest

from heddle.telemetry.samples.topic import Source, Topic, nics_topic, parse, ports_topic, status_topic, subscriptions


def test_topics_are_those_of_the_contract():
    assert ports_topic("lab", "leaf1") == "heddle/v1/lab/switch/leaf1/ports"
    assert nics_topic("lab", "h1") == "heddle/v1/lab/host/h1/nics"
    assert status_topic("lab", "a.1") == "heddle/v1/lab/agent/a.1/status"


@pytest.mark.parametrize("source", Source)
def test_a_built_topic_parses_to_itself(source):
    topic = Topic("lab", source, "x-1")
    assert parse(str(topic)) == topic


@pytest.mark.parametrize(
    "text",
    [
        "",
        "heddle/v1/lab/switch/leaf1",
        "heddle/v1/lab/switch/leaf1/ports/",
        "heddle/v2/lab/switch/leaf1/ports",
        "heddle/v1/lab/switch/leaf1/nics",
        "heddle/v1/lab/host/+/nics",
        "heddle/v1//host/h1/nics",
        "heddle/v1/lab/host/h 1/nics",
        "heddle/v1/lab/host/h1\n/nics",
        "heddle/v1/lab/host/" + "h" * 64 + "/nics",
        "heddle/v1/lab/host/" + "h" * 10_000,
    ],
)
def test_a_topic_outside_the_contract_is_not_parsed(text):
    assert parse(text) is None


def test_an_id_with_a_slash_is_refused():
    with pytest.raises(ValueError, match="not valid in a topic"):
        ports_topic("lab", "a/b")


def test_a_collector_subscribes_to_samples_without_and_to_status_with_acknowledgement():
    assert subscriptions("lab") == (
        ("heddle/v1/lab/switch/+/ports", 0),
        ("heddle/v1/lab/host/+/nics", 0),
        ("heddle/v1/lab/agent/+/status", 1),
    )
