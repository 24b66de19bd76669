"""Start-up: a command imports only what it uses, because imports are most of the time of a short command."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from heddle.programs.console.registry import COMMANDS

ROOT = Path(__file__).parents[3]
HEAVY = ("asyncio", "grpc", "numba", "numpy", "rich", "yaml")
OURS = ("heddle.benchmarks", "heddle.dataplane", "heddle.mininet_topos", "heddle.telemetry")
SCRIPT = """
import sys
sys.argv = ["heddle", *sys.argv[1:]]
from heddle.programs.console.main import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def imported_by(*arguments, **environment):
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        capture_output=True, text=True, timeout=60, cwd=ROOT, env={**os.environ, **environment},
    )  # fmt: skip
    return run.stdout, set(run.stderr.split())


def test_help_imports_no_command_and_no_large_library():
    text, modules = imported_by("--help")
    assert "Plan jobs offline" in text
    assert modules.isdisjoint((*HEAVY, *OURS, "pydantic", "importlib.metadata"))


def test_the_version_is_that_of_the_distribution():
    code = "import sys; sys.argv[1:] = ['--version']; from heddle.programs.console.start import main; main()"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout == f"heddle {version('heddle')}\n"


def test_a_command_imports_no_other_package_s_commands():
    _, modules = imported_by("plan", "--help")
    assert modules.isdisjoint((*HEAVY, *OURS, "heddle.programs.console.options.job"))


def test_a_client_of_a_controller_imports_no_planner():
    # What is refused before it would wait for a controller: certificates that are not there.
    _, modules = imported_by("job", "list", "--server", "nonsense", HEDDLE_TLS=str(ROOT / "none"))
    assert "grpc" in modules
    assert modules.isdisjoint(("numba", "numpy", "heddle.controller.planner"))


def test_a_controller_imports_the_client_of_a_broker_only_where_one_is_configured():
    code = "import sys, heddle.controller.app; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "heddle.telemetry.observer" in modules
    assert {"aiomqtt", "paho", "dns"}.isdisjoint(modules)


def test_every_command_can_be_imported(heddle):
    for name in COMMANDS:
        status, text, _ = heddle(*name.split(), "--help")
        assert status == 0
        assert f"heddle {name} " in text.splitlines()[0]


def test_a_name_that_is_no_command_suggests_one(heddle):
    status, _, text = heddle("pln")
    assert status == 2
    assert "No such command 'pln'. Did you mean 'plan'" in text


def test_an_offline_command_ends_with_its_status_and_all_of_its_output(tmp_path):
    script = "from heddle.programs.console.start import main; main()"
    file = tmp_path / "jobs.yaml"
    file.write_text("version: 1\nnonsense: 1\n")
    run = subprocess.run(
        [sys.executable, "-c", script, "check", str(file)], capture_output=True, text=True, timeout=60, env=os.environ
    )
    assert (run.returncode, run.stderr) == (2, "")
    assert "neither a fabric file" in run.stdout
