"""Write the report folder after the demo has completed: an interrupted demo leaves no partial report."""

import json
import os
import tempfile
from pathlib import Path

from heddle.controller.model.error import PrerequisiteError
from heddle.mininet_topos.demo.report.page import report_page
from heddle.mininet_topos.demo.report.picture import picture
from heddle.mininet_topos.demo.results.values import DemoResult


def check_folder(folder: Path) -> None:
    """Raise PrerequisiteError if the folder cannot be created or written, before the demo starts; leave no folder."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        for path in missing:
            path.rmdir()
    except OSError as error:
        reason = error.strerror or str(error)
        raise PrerequisiteError(
            f"the report folder {folder} cannot be written ({reason}): name another with --report"
        ) from None


def write_report(result: DemoResult, folder: Path) -> None:
    """Write `results.json`, `report.html` and `demo.svg`; each atomically replaces that of an earlier demo."""
    texts = {
        "results.json": json.dumps(result.to_json(), indent=1) + "\n",
        "report.html": report_page(result),
        "demo.svg": picture(result),
    }
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".") as drafts:
        for name, text in texts.items():
            (Path(drafts) / name).write_text(text, encoding="utf-8")
        for name in texts:
            os.replace(Path(drafts) / name, folder / name)
    _chown_to_sudo_user([*made, *(folder / name for name in texts)])


def _chown_to_sudo_user(paths: list[Path]) -> None:
    """Change the owner of the paths to the user that ran the demo with sudo, if any."""
    owner, group = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() == 0 and owner.isdigit() and group.isdigit():
        for path in paths:
            os.chown(path, int(owner), int(group))
