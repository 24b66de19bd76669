"""A wheel holds what the page needs: `heddle run` out of a wheel serves every static file as it is in the tree."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import urllib.request
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "controller" / "dashboard" / "static"
FABRIC = "version: 1\nname: wheel\ngenerate: {kind: spine_leaf, spines: 1, leaves: 2, hosts_per_leaf: 1, gbps: 100}\n"
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """Build a wheel from a copy of the tree, without a network, and unpack it as an installer does."""
    folder = tmp_path_factory.mktemp("wheel")
    tree, built, site = folder / "tree", folder / "built", folder / "site"
    ignored = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc", "tests")
    find = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]
    for name in (pattern.rstrip("*") for pattern in find["include"]):
        shutil.copytree(ROOT / name, tree / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    subprocess.run([sys.executable, "-c", BUILD, str(built)], cwd=tree, check=True, capture_output=True, timeout=200)
    (wheel,) = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    return site


def test_heddle_run_out_of_a_wheel_serves_every_file_of_the_page(installed, tmp_path):
    (tmp_path / "fabric.yaml").write_text(FABRIC)
    ports = [word for name in ("openflow", "grpc", "http") for word in (f"--{name}", "127.0.0.1:0")]
    command = [sys.executable, "-m", "controller.cli.main", "run", "fabric.yaml", "--state", "none", *ports]
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
