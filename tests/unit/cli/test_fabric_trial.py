"""`heddle fabric apply --dry-run` on a running controller, which goes on as before."""

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
        "running jobs: none\nrules: 0 more and 0 fewer at 0 switches\na start with it goes on with these jobs\n"
    )
    status, out, _ = trial(own(controller), "--dry-run", "--json")
    assert (status, json.loads(out)["exit_status"]) == (0, 0)


def test_without_dry_run_the_line_says_what_to_do(trial, controller):
    status, out, err = trial(own(controller))
    assert (status, out) == (2, "")
    assert "--dry-run is needed: a controller takes another fabric file at its start" in err


def test_a_malformed_file_is_named_by_its_key(trial):
    status, out, err = trial("spinse: 3\n", "--dry-run")
    assert (status, out) == (2, "")
    assert "fabric: spinse: unknown key" in err
