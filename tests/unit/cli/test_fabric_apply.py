"""`heddle fabric apply` on a controller that goes on; `tests/unit/journal/test_fabric_apply.py` has a change."""

import json

import pytest

from heddle.controller.config.write import fabric_text
from tests.support.controllers.served_controller import served


@pytest.fixture(scope="module")
def controller():
    with served() as found:
        yield found


@pytest.fixture
def trial(heddle, files, controller):
    """Try the fabric of the controller, or a text; gives (exit status, standard output, standard error)."""

    def run(text, *options):
        return heddle("fabric", "apply", files("new.yaml", text), *options, "--server", controller.grpc)

    return run


def own(controller) -> str:
    return "\n".join(fabric_text(controller.application.loop.state.fabric, numbered=True)) + "\n"


def test_the_same_file_changes_nothing(trial, controller):
    status, out, err = trial(own(controller), "--dry-run")
    assert (status, err) == (0, "")
    assert out == (
        "nothing differs\nrunning jobs: none\nrules: 0 more and 0 fewer at 0 switches\nit is the fabric in force\n"
    )
    status, out, _ = trial(own(controller), "--dry-run", "--json")
    assert (status, json.loads(out)["exit_status"]) == (0, 0)


def test_without_a_journal_nothing_is_applied(trial, controller):
    text = own(controller) + "failed: [spine1]\n"
    status, out, err = trial(text)
    assert (status, out) == (1, "")
    assert "a change of the fabric needs a journal" in err


def test_a_malformed_file_is_named_by_its_key(trial):
    status, out, err = trial("spinse: 3\n", "--dry-run")
    assert (status, out) == (2, "")
    assert "new.yaml: spinse: unknown key" in err
