"""Write the report folder, all of it or nothing: a demo that was broken off leaves no report that looks whole."""

import json
import os
import tempfile
from pathlib import Path

from controller.model.error import PrerequisiteError
from mininet_topos.demo.report.page import report_page
from mininet_topos.demo.report.picture import picture
from mininet_topos.demo.results.values import DemoResult


def check_folder(folder: Path) -> None:
    """Say before the demo has run for minutes that the folder cannot be made or written to; leave no folder yet."""
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
    """Write `results.json`, `report.html` and `demo.svg`; each replaces the one of an earlier demo in one step."""
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
    _give_to_caller([*made, *(folder / name for name in texts)])


def _give_to_caller(paths: list[Path]) -> None:
    """Let whoever called us by sudo own what was written for them."""
    owner, group = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() == 0 and owner.isdigit() and group.isdigit():
        for path in paths:
            os.chown(path, int(owner), int(group))
