"""Errors of ports: one line, with the interface and the remedy."""

import errno


class PortError(Exception):
    """A port cannot be opened or used; the text is for an operator."""


class BpfError(Exception):
    """The kernel refused a command of bpf(2); the caller turns it into a PortError with a remedy."""

    def __init__(self, code: int, verdict: str = "") -> None:
        super().__init__(code, verdict)
        self.code = code
        self.verdict = verdict
        """The last line of the verifier's log, or nothing."""

    @property
    def forbidden(self) -> bool:
        """Whether a privilege is missing."""
        return self.code == errno.EPERM


class BackendMissingError(PortError):
    """This kind of port is not available here, for this reason; another kind may be."""
