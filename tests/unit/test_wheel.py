"""A wheel holds what the page needs: `heddle run` out of a wheel serves every static file as it is in the tree."""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINKED = sorted(path.name for path in (ROOT / "heddle").iterdir() if path.is_symlink())
STATIC = ROOT / "controller" / "dashboard" / "static"
FABRIC = "version: 1\nname: wheel\ngenerate: {kind: spine_leaf, spines: 1, leaves: 2, hosts_per_leaf: 1, gbps: 100}\n"
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """Build a wheel from a copy of the tree, without a network, and unpack it as an installer does."""
    folder = tmp_path_factory.mktemp("wheel")
    tree, built, site = folder / "tree", folder / "built", folder / "site"
    ignored = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
    for name in ("heddle", *LINKED):  # the links as links, as in a checkout
        shutil.copytree(ROOT / name, tree / name, ignore=ignored, symlinks=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    subprocess.run([sys.executable, "-c", BUILD, str(built)], cwd=tree, check=True, capture_output=True, timeout=200)
    (wheel,) = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    return site


def test_heddle_run_out_of_a_wheel_serves_every_file_of_the_page(installed, tmp_path):
    (tmp_path / "fabric.yaml").write_text(FABRIC)
    ports = [word for name in ("openflow", "grpc", "http") for word in (f"--{name}", "127.0.0.1:0")]
    command = [sys.executable, "-m", "heddle.programs.console.main", "run", "fabric.yaml", "--state", "none", *ports]
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    files = [path for path in STATIC.rglob("*") if path.is_file()]
    assert len(files) > 30
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = f"http://{json.loads(process.stdout.readline())['http']}"
            for path in files:
                with urllib.request.urlopen(f"{url}/static/{path.relative_to(STATIC)}", timeout=60) as reply:
                    assert reply.read() == path.read_bytes(), path
            with urllib.request.urlopen(url + "/matrix", timeout=60) as reply:
                assert reply.read() == (STATIC / "index.html").read_bytes()
        finally:
            process.terminate()
            process.wait(60)
    assert process.returncode == 0


def test_a_wheel_adds_one_package_to_everybody_else_s(installed):
    assert {path.name for path in installed.iterdir()} == {"heddle", *(f.name for f in installed.glob("heddle-*"))}
    assert not any(path.is_symlink() for path in installed.rglob("*"))


@pytest.mark.parametrize("layout", ["heddle/v1/heddle.proto", "heddle.proto"])
def test_a_user_s_own_stubs_of_the_contract_import_beside_the_wheel(installed, tmp_path, layout):
    """The contract may be compiled below its public path or beside the user's code: protoc names modules by that."""
    (tmp_path / layout).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "heddle" / "v1" / "heddle.proto", tmp_path / layout)
    protoc = [sys.executable, "-m", "grpc_tools.protoc", "-I.", "--python_out=.", "--grpc_python_out=.", layout]
    subprocess.run(protoc, cwd=tmp_path, check=True, timeout=60)
    module = layout.removesuffix(".proto").replace("/", ".") + "_pb2"
    code = f"import {module} as pb, {module}_grpc as rpc"
    code += "; print(pb.SubmitJobRequest(job_id='a').job_id, rpc.JobServiceStub.__name__)"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{installed}"}
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert (run.stdout, run.stderr) == ("a JobServiceStub\n", "")
    heddle = "from heddle.programs.console.start import main; main()"
    command = [sys.executable, "-c", heddle, "--help"]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert "Plan jobs offline" in run.stdout


@pytest.mark.parametrize("name", LINKED)
def test_a_linked_folder_is_no_package_of_its_own_in_a_checkout(name):
    """Both names would import: two copies of every module, whose classes are not each other's."""
    run = subprocess.run([sys.executable, "-c", f"import {name}"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert f"ImportError: this package is heddle.{name}: import it by that name" in run.stderr
