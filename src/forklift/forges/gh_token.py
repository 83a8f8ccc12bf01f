"""The token that GitHub's own command line keeps. The only process that this package starts."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping

_LONGEST_WAIT = 10.0
"""Seconds. A locked key ring would wait for a person who is not there."""

_OVERRULING = frozenset(
    {"GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"}
)
"""With one of these set, `gh auth token` answers with it for hosts it was never meant for."""


def gh_token(
    host: str, environ: Mapping[str, str] | None = None, *, longest_wait: float = _LONGEST_WAIT
) -> str | None:
    """What `gh auth token` knows for this host; None without gh, or when it is not logged in."""
    kept = os.environ if environ is None else environ
    environment = {name: value for name, value in kept.items() if name not in _OVERRULING}
    try:
        gh = subprocess.Popen(
            ["gh", "auth", "token", "--hostname", host],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Not in the repository at hand: nothing in it is to be found on a relative PATH.
            cwd="/",
            env={**environment, "GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1"},
            start_new_session=True,
            text=True,
        )
    except OSError:
        return None
    with gh:
        try:
            out, _ = gh.communicate(timeout=longest_wait)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(gh.pid, signal.SIGKILL)
            return None
        except UnicodeDecodeError:
            return None
    return (out.strip() or None) if gh.returncode == 0 else None
