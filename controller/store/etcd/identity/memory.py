"""What a controller remembers of the etcd that it has used: in a file, over its restarts, or while it runs."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from heddle.controller.model.error import InputError, PrerequisiteError
from heddle.controller.store.etcd.identity.record import Known

FOLDER = "etcd"


class Memory:
    """One controller's memory of one fabric; it outlives each life of `Application` in the process."""

    def __init__(self, file: Path | None = None) -> None:
        """Read the file, if there is one; raises InputError where it is damaged, and PrerequisiteError."""
        self._file = file
        self._known = _read(file) if file is not None else None

    def known(self, endpoints: Sequence[str]) -> Known | None:
        """Return what is remembered of an etcd with one of these endpoints."""
        if self._known is None or set(self._known.endpoints).isdisjoint(endpoints):
            return None
        return self._known

    def elsewhere(self, endpoints: Sequence[str]) -> Known | None:
        """Return what is remembered of an etcd at other addresses alone."""
        return self._known if self.known(endpoints) is None else None

    def remember(self, known: Known) -> None:
        """Replace what is remembered, durably; raises OSError."""
        if known == self._known:
            return
        self._known = known
        if self._file is None:
            return
        fields = {
            "cluster": f"{known.cluster:x}", "journal": known.journal, "revision": known.revision,
            "endpoints": list(known.endpoints), "epoch": known.epoch,
        }  # fmt: skip
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = self._file.with_name(self._file.name + ".new")
        with beside.open("w") as file:
            json.dump(fields, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._file)


def file_in(directory: Path, fabric: str, name: str) -> Path:
    """Return the file of one controller of a fabric."""
    return directory / FOLDER / f"{quote(fabric, safe='')}@{quote(name, safe='')}.json"


def _read(file: Path) -> Known | None:
    try:
        found = json.loads(file.read_text())
        return Known(
            cluster=int(found["cluster"], 16), journal=str(found["journal"]), revision=int(found["revision"]),
            endpoints=tuple(map(str, found["endpoints"])), epoch=int(found["epoch"]),
        )  # fmt: skip
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PrerequisiteError(f"cluster.memory: {file} cannot be read ({error.strerror})") from None
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"cluster.memory: {file} is damaged; it names the etcd that this controller has used: delete it where "
            "cluster.endpoints are right"
        ) from None
