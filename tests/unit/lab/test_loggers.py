"""Loggers beside Mininet."""

import subprocess
import sys

import pytest


def test_loggers_that_are_made_after_mininet_show_lines_of_level_info():
    pytest.importorskip("mininet")
    program = (
        "import logging\nimport heddle.mininet_topos.switches.mininet_nodes\n"
        "logging.basicConfig(level=logging.INFO)\nlogging.getLogger('heddle.made_later').info('shown')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "shown" in done.stderr
