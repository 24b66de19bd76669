"""What a policy file says of Slurm's jobs, read again when the file has changed."""

from collections.abc import Callable
from pathlib import Path

from heddle.controller.config.policy_file import load_slurm_rules
from heddle.controller.config.text.complaint import one_line
from heddle.controller.model.error import HeddleError
from heddle.controller.schedulers.slurm_descriptions import Rule


class JobRules:
    """The rules of a file; raises InputError where it is wrong at the start. Later it is one line, and they stay."""

    def __init__(self, path: Path, log: Callable[[str], None]) -> None:
        self._path, self._log = path, log
        self._seen = self._version()
        self._rules = load_slurm_rules(path)

    def current(self) -> tuple[Rule, ...]:
        """Return the rules, the first that fits decides."""
        seen = self._version()
        if seen != self._seen:
            self._seen = seen
            try:
                self._rules = load_slurm_rules(self._path)
                self._log(f"{self._path}: {len(self._rules)} rules for jobs")
            except (HeddleError, OSError) as error:
                self._log(one_line(f"{self._path}: the former rules stay: {error}"))
        return self._rules

    def _version(self) -> tuple[int, ...]:
        """Return what differs after a change of the file; nothing where it cannot be read."""
        try:
            found = self._path.stat()
        except OSError:
            return ()
        return found.st_ino, found.st_size, found.st_mtime_ns
