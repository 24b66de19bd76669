"""Three controllers and three members of etcd in network namespaces: a leader or a member is cut off under load.

What it measures goes to the test's output: `pytest -rA`.
"""

import shutil
import subprocess
import sys

import pytest

from tests.support.clusters.etcd import PROGRAM
from tests.support.clusters.partitioned_site import LEADER, LEADER_FROM_ETCD, LEADING_MEMBER, MEMBER

pytestmark = [pytest.mark.e2e]

EACH = (LEADER, LEADER_FROM_ETCD, LEADING_MEMBER, MEMBER)
FAULTS = [
    pytest.param(EACH[:3], 0.0, id="short"),
    pytest.param(EACH * 10, 8.0, id="40", marks=[pytest.mark.soak, pytest.mark.slow]),
]


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(("faults", "cut_s"), FAULTS)
def test_no_acknowledged_write_is_lost_and_no_old_leader_changes_a_switch(tmp_path, faults, cut_s):
    if shutil.which(PROGRAM) is None:
        pytest.skip("no etcd here: `scripts/setup all` installs it")
    # A process namespace too: whatever ends the site ends all that it has started.
    apart = ["unshare", "--net", "--pid", "--mount-proc", "--fork", "--kill-child", "--"]
    command = [*apart, sys.executable, "-m", "tests.support.clusters.partitioned_site"]
    done = subprocess.run(
        [*command, str(tmp_path), str(cut_s), ",".join(faults)], capture_output=True, text=True, check=False
    )
    print(done.stdout)
    assert not done.returncode, done.stderr[-8_000:]
