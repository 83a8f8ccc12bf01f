"""Every error Forklift raises, one branch per who must act.

ForkliftError
├── OperatorError          the person who runs Forklift must change something
│   ├── SetupError         arguments, configuration, repository, remotes, fetch
│   ├── SandboxUnavailable Docker or the image is not to be had
│   └── ForkLocked         another run holds the fork
├── GuestError             what came out of the sandbox cannot be used
│   └── UnsafeOutput       a file or a bundle that no honest guest would leave
├── RemoteError            somebody else's server must change its mind
│   ├── ForgeError         the forge's API refused or failed
│   └── PushRefused        the Git remote refused the branch
└── InternalError          a bug of ours: report it

A message says what happened, to what, and what to do next, in one line. Exit codes are not here:
they belong to the command line (`cli/exit_codes.py`).
"""


class ForkliftError(Exception):
    """The root: catch it at a process's edge, never in between."""

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        """What `--debug` shows besides: a tool's own output, already redacted."""


class OperatorError(ForkliftError):
    """The person who runs Forklift must change something."""


class SetupError(OperatorError):
    """Arguments, configuration, repository, remotes or fetch."""


class SandboxUnavailable(OperatorError):
    """Docker or the image is not to be had."""


class ForkLocked(OperatorError):
    """Another run holds the fork."""


class GuestError(ForkliftError):
    """What came out of the sandbox cannot be used."""


class UnsafeOutput(GuestError):
    """A file or a bundle that no honest guest would leave."""


class RemoteError(ForkliftError):
    """Somebody else's server must change its mind."""


class ForgeError(RemoteError):
    """The forge's API refused or failed."""


class PushRefused(RemoteError):
    """The Git remote refused the branch."""


class InternalError(ForkliftError):
    """A bug of ours."""
