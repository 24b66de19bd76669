"""What goes wrong with ports: one line, with the interface and the remedy."""

import errno


class PortError(Exception):
    """A port cannot be opened or used; the text is for a person."""


class BpfError(Exception):
    """The kernel refused a command of bpf(2); whoever wanted it knows what to say and do about it."""

    def __init__(self, code: int, verdict: str = "") -> None:
        super().__init__(code, verdict)
        self.code = code
        self.verdict = verdict
        """What the verifier said last, or nothing."""

    @property
    def forbidden(self) -> bool:
        """Whether it is a matter of privileges."""
        return self.code == errno.EPERM


class BackendMissingError(PortError):
    """This kind of port is not to be had here, for this reason; another kind may be."""
