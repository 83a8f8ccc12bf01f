"""Git's own requests to a forge in this process: who may fetch, who may push, and what to say."""

import base64
import binascii
import re
import urllib.parse
from pathlib import Path
from typing import Protocol

from forklift.testing import git_http
from forklift.testing.forge_http import Reply, Sent
from forklift.testing.forge_state import HostedRepository, Token

_PATH = re.compile(r"/(?P<name>.+?)(?:\.git)?(?P<service>/info/refs|/git-(?:upload|receive)-pack)")


class _Forge(Protocol):
    root: Path
    keeps_workflows: bool

    def token(self, value: str) -> Token | None: ...
    def repository(self, full_name: str) -> HostedRepository | None: ...


def answer(forge: _Forge, sent: Sent) -> Reply | None:
    """None when it is not Git that asks. The token is the password, of any user."""
    found = _PATH.fullmatch(sent.path)
    if found is None:
        return None
    repository = forge.repository(urllib.parse.unquote(found["name"]))
    token = forge.token(_password(sent.authorization))
    name = token.owner.name if token and not token.expired else ""
    writes = "git-receive-pack" in sent.path + sent.query
    if not name and (sent.authorization or writes or not repository or repository.private):
        return Reply(401, b"Unauthorized", {"WWW-Authenticate": 'Basic realm="forge"'})
    if repository is None or not repository.may_read(name):
        return Reply(404, b"Not Found")
    if writes and (repository.archived or not repository.may_write(name)):
        return Reply(403, b"User permission denied for writing.")
    request = git_http.CgiRequest(
        sent.method,
        f"/{repository.git_dir.relative_to(forge.root)}{found['service']}",
        sent.query,
        sent.body,
        sent.headers,
        name,
        not forge.keeps_workflows or token is None or token.has("workflow"),
    )
    done = git_http.serve(forge.root, request)
    return Reply(done.status, done.body, done.headers)


def _password(authorization: str) -> str:
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
