"""What Slurm's TaskProlog prints, by Perl and by Python: a task's variables where the agent replies, else nothing."""

import socket
import subprocess
import threading

import pytest

from heddle.programs.console.launch.node.task_prolog import MAGIC, REQUEST
from heddle.programs.console.launch.node.task_prolog_script import task_prolog_script
from heddle.programs.console.slurm.hook_script import PERL

TIMEOUT_S = 60


class Agent:
    """A socket at a path with a quote, and a library beside it; it replies to one announcement with these bytes."""

    def __init__(self, folder, reply):
        self.path, self.library, self.request = folder / "it's $here", folder / "port-shim.so", b""
        self.library.touch()
        self._reply = reply
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(self.path))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        connection, _ = self._listener.accept()
        with connection:
            self.request = connection.recv(100)
            connection.send(self._reply) if self._reply else None

    def close(self):
        self._listener.close()


@pytest.fixture(params=["perl", "python"])
def printed(request, tmp_path):
    """Return a function that runs the script with an environment, and returns what it prints."""
    if request.param == "perl" and PERL is None:
        pytest.skip("no perl")

    def run(agent, environment):
        script = tmp_path / "prolog"
        perl = PERL if request.param == "perl" else None
        script.write_text(task_prolog_script(str(agent.path), str(agent.library), perl))
        script.chmod(0o755)
        ran = subprocess.run([script], env=environment, capture_output=True, timeout=TIMEOUT_S, check=True)
        assert all(b"audit interface" in line for line in ran.stderr.splitlines())  # ld.so's, of an object that is none
        return ran.stdout.decode()

    return run


@pytest.mark.parametrize("before", [None, "", "a.so"])
def test_a_task_that_is_announced_gets_its_variables(printed, tmp_path, before):
    agent = Agent(tmp_path, b"known")
    audit = f"{before}:{agent.library}" if before else agent.library
    environment = {} if before is None else {"LD_AUDIT": before}
    assert printed(agent, environment) == f"export HEDDLE_PORT_SOCKET={agent.path}\nexport LD_AUDIT={audit}\n"
    assert REQUEST.unpack(agent.request) == (MAGIC, 1, bytes(16), bytes(16), 0, 0)
    agent.close()


@pytest.mark.parametrize("switch", ["-MNotInstalled", "-d"])
def test_a_user_whose_perl_has_other_switches_gets_the_variables(printed, tmp_path, switch):
    agent = Agent(tmp_path, b"known")
    assert printed(agent, {"PERL5OPT": switch}).startswith("export ")
    agent.close()


def test_a_node_without_that_perl_cancels_no_task(tmp_path):
    script = tmp_path / "prolog"
    script.write_text(task_prolog_script("/run/none", "/run/none.so", "/none/perl"))
    script.chmod(0o755)
    assert subprocess.run([script], capture_output=True, timeout=TIMEOUT_S, check=True).stdout == b""


def test_a_locale_that_the_node_lacks_is_no_line_of_the_task(printed, tmp_path):
    agent = Agent(tmp_path, b"known")
    assert printed(agent, {"LC_ALL": "xx_YY.UTF-8"}).startswith("export ")
    agent.close()


@pytest.mark.parametrize("case", ["its own socket", "no library", "no agent", "an agent that ends"])
def test_without_an_agent_or_its_library_nothing_is_printed(printed, tmp_path, case):
    agent = Agent(tmp_path, b"" if case == "an agent that ends" else b"known")
    if case == "no agent":
        agent.path = tmp_path / "none"
    if case == "no library":
        agent.library = tmp_path / "none"
    assert printed(agent, {"HEDDLE_PORT_SOCKET": ""} if case == "its own socket" else {}) == ""
    agent.close()
