"""What git said about a remote, told in one line with the next step. Pure."""

import re
from dataclasses import dataclass

from forklift.core.text import one_line


@dataclass(frozen=True, slots=True)
class _Case:
    pattern: re.Pattern[str]
    line: str


def _case(pattern: str, line: str) -> _Case:
    return _Case(re.compile(pattern, re.IGNORECASE), line)


_FETCH = (
    _case(
        r"could not read Username|could not read Password|terminal prompts disabled|Authentication"
        r" failed|HTTP Basic: Access denied|returned error: 40[13]|Invalid username or",
        "{remote} ({url}) wants a login and there is nobody to ask; store one with a git credential"
        " helper, or use an ssh URL with a key that needs no passphrase",
    ),
    _case(
        r"Permission denied \(|Host key verification failed|no mutual signature",
        "{remote} ({url}) refused the ssh key; check it with: ssh -o BatchMode=yes -T {host}",
    ),
    _case(
        r"Could not resolve host|Name or service not known|Temporary failure in name",
        "{remote} ({url}) cannot be found: the host's name does not resolve; check the network",
    ),
    _case(
        r"Connection (refused|reset|timed out)|Failed to connect|Couldn't connect|unable to access"
        r".*(SSL|certificate)|Network is unreachable",
        "{remote} ({url}) does not answer: {said}",
    ),
    _case(
        r"does not appear to be a git repository|Repository not found|repository '.*' not found"
        r"|project you were looking for could not be found|returned error: 404|does not exist",
        "{remote} ({url}) is no git repository that can be read from here; correct it with:"
        " git remote set-url {remote} URL",
    ),
    _case(
        r"detected dubious ownership",
        "{remote} ({url}) belongs to another user; allow it with:"
        " git config --global --add safe.directory PATH",
    ),
    _case(r"No space left on device", "the disk is full; free some space and run again"),
    _case(
        r"mismatched algorithms",
        "{remote} ({url}) names its objects by SHA-256, and Forklift works on SHA-1 repositories"
        " only; sync this fork by hand",
    ),
    _case(
        r"Operation too slow|transfer closed|early EOF|unexpected disconnect|RPC failed",
        "{remote} ({url}) stopped in the middle; run again later ({said})",
    ),
)

_PUSH = (
    _case(
        r"refusing to allow an? .*(workflow|OAuth App|Personal Access Token|integration)",
        "{remote} refused the push: the change touches workflow files and the token lacks the"
        " `workflow` scope; give it that scope",
    ),
    _case(
        r"protected branch|GH006|GH013|pre-receive hook declined|hook declined|not allowed to push"
        r"|You are not allowed|rule violations|update hook",
        "{remote} refused the branch (protection or a hook): {said}; allow pushes to forklift/*",
    ),
    _case(
        r"GH008|unknown Git LFS objects|LFS objects are missing",
        "{remote} lacks LFS objects of upstream's; bring them with: git lfs fetch --all upstream &&"
        " git lfs push --all origin",
    ),
    _case(
        r"'refs/heads/forklift' exists",
        "{remote} has a branch named 'forklift', beside which no forklift/… can be; rename it",
    ),
    _case(
        r"stale info|fetch first|non-fast-forward|failed to update ref|cannot lock ref",
        "the branch moved on {remote} while the run was at work; run again",
    ),
    _case(
        r"returned error: 403|denied to|insufficient|Permission to .* denied|not have (write|push)",
        "the credentials may read {remote} but not push to it; give them write access",
    ),
    _case(r"No space left|quota", "{remote} has no room for the branch: {said}"),
    *_FETCH,
)


def explain_fetch(remote: str, url: str, stderr: str) -> str:
    return _explain(_FETCH, remote, url, stderr) or (
        f"fetching {remote} ({without_login(url)}) failed: {gist(stderr)}"
    )


def explain_push(remote: str, url: str, stderr: str) -> str:
    return _explain(_PUSH, remote, url, stderr) or f"{remote} refused the push: {gist(stderr)}"


def without_login(url: str) -> str:
    """The URL as it may be shown: a user and password before the host are left out."""
    return re.sub(r"^([a-z][a-z0-9+.-]*://)[^/@]*@", r"\1", url, flags=re.IGNORECASE)


def gist(stderr: str) -> str:
    """The line of git's complaint that says most."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    telling = [line for line in lines if re.match(r"(fatal|error|remote: (error|fatal))", line)]
    refused = [line for line in lines if line.startswith("! [")]
    hints = [line for line in lines if line.startswith("remote:") and len(line) > len("remote: --")]
    chosen = (refused + hints + telling + lines + ["no reason given"])[0]
    return one_line(without_logins(chosen), 160)


def without_logins(text: str) -> str:
    return re.sub(r"(?i)\b([a-z][a-z0-9+.-]*://)[^/@\s]*@", r"\1", text)


def _explain(cases: tuple[_Case, ...], remote: str, url: str, stderr: str) -> str | None:
    shown = without_login(url)
    host = re.sub(r"^[a-z+]+://|[:/].*$", "", shown)
    for case in cases:
        if case.pattern.search(stderr):
            return case.line.format(remote=remote, url=shown, host=host, said=gist(stderr))
    return None
