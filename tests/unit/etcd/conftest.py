import shutil

import pytest

from tests.support.clusters.etcd import PROGRAM, QUICK_ELECTIONS, etcd


@pytest.fixture(scope="session")
def one_etcd(tmp_path_factory):
    """One member, which all tests of the session share: each uses keys or a fabric of its own."""
    if shutil.which(PROGRAM) is None:
        pytest.skip("no etcd here: `scripts/setup all` installs it")
    with etcd(tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster


@pytest.fixture
def three_etcds(tmp_path):
    if shutil.which(PROGRAM) is None:
        pytest.skip("no etcd here: `scripts/setup all` installs it")
    with etcd(tmp_path / "etcd", members=3, options=QUICK_ELECTIONS) as cluster:
        yield cluster
