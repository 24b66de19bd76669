"""What an environment says wrongly is one line, and the command of `heddle exec` runs; a wrong option is refused."""

import signal
import sys
from contextlib import contextmanager

import grpc
import pytest

from heddle.controller.model.error import InputError, PrerequisiteError
from heddle.programs.console.launch import command as module
from heddle.programs.console.launch.child import FORWARDED
from heddle.programs.console.launch.command import ExecOptions, run_exec
from heddle.v1 import heddle_pb2 as pb

NO_SERVER = "127.0.0.1:1"
TORCH = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "1"}
WRONG = {
    "torch": {**TORCH, "LOCAL_RANK": "1"},
    "torch, a rank too large": {**TORCH, "RANK": "4"},
    "slurm, no such list": {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "[n1-n2]"},
    "slurm, a task of none": {"SLURM_JOB_ID": "1", "SLURM_PROCID": "3", "SLURM_NTASKS": "2"},
    "open mpi without a name": {
        "OMPI_COMM_WORLD_RANK": "0",
        "OMPI_COMM_WORLD_SIZE": "2",
        "OMPI_COMM_WORLD_LOCAL_RANK": "0",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    },
}
SAYS_RAN = (sys.executable, "-c", "print('ran')")


@pytest.fixture(autouse=True)
def _signal_handlers_stay():
    before = [signal.getsignal(number) for number in FORWARDED]
    yield
    for number, handler in zip(FORWARDED, before, strict=True):
        signal.signal(number, handler)


class Controller:
    """A controller of one host `h1` that refuses every job as malformed."""

    jobs = fabric = None

    def __init__(self):
        self.jobs = self.fabric = self

    def GetTopology(self, request):
        return pb.Topology(nics=[pb.Nic(id="h1-n0", host="h1", ip="10.0.0.1", network="compute")])

    def JoinJob(self, request, timeout):
        raise InputError("nics: this controller takes none")

    def LeaveJob(self, request, timeout):
        raise grpc.RpcError


@pytest.fixture
def controller(monkeypatch):
    @contextmanager
    def connected(server):
        yield Controller()

    monkeypatch.setattr(module, "connected", connected)


@pytest.mark.parametrize("environment", WRONG.values(), ids=WRONG)
def test_a_wrong_environment_is_one_line_and_the_command_runs(environment, capfd):
    assert run_exec(ExecOptions(server=NO_SERVER), SAYS_RAN, environment) == 0
    out, errors = capfd.readouterr()
    assert out == "ran\n"
    assert errors.count("\n") == 1
    assert errors.startswith("heddle: ")
    assert errors.endswith(": the command runs without planned paths\n")


def test_a_plan_that_is_required_is_no_wrong_option(capfd):
    with pytest.raises(PrerequisiteError, match="LOCAL_WORLD_SIZE"):
        run_exec(ExecOptions(server=NO_SERVER, require_plan=True), SAYS_RAN, WRONG["torch"])
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("options", "why"),
    [({}, "no compute NIC of host"), ({"nics": ("h1-n0",)}, "takes none")],
    ids=["a host that the fabric lacks", "a job that the controller refuses"],
)
def test_what_the_controller_does_not_take_is_one_line_and_the_command_runs(controller, options, why, capfd):
    assert run_exec(ExecOptions(server=NO_SERVER, **options), SAYS_RAN, {}) == 0
    out, errors = capfd.readouterr()
    assert (out, errors.count("\n")) == ("ran\n", 1)
    assert why in errors


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"nics": ("h9-n0",)}, "--nic"),
        ({"host": "h9"}, "--host"),
        ({"node_rank": 2, "node_count": 2, "job_id": "j"}, "--node-rank"),
        ({"node_rank": 0}, "--node-count"),
        ({"node_rank": 0, "node_count": 1}, "--job"),
        ({"collective": "RING"}, "--collective"),
    ],
)
def test_a_wrong_option_is_refused_and_nothing_runs(controller, options, named, capfd):
    with pytest.raises(InputError, match=named):
        run_exec(ExecOptions(server=NO_SERVER, **options), SAYS_RAN, {})
    assert capfd.readouterr().out == ""
