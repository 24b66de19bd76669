"""What end-to-end tests of several files need."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A registry of labs of the test's own: what it leaves behind is not cleared by a lab that starts elsewhere."""
    with tempfile.TemporaryDirectory(prefix="hdrun") as folder:  # short: socket paths have a limit
        monkeypatch.setenv("HEDDLE_RUN_DIR", folder)
        yield Path(folder)
