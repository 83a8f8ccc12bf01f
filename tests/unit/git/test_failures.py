"""What git says, told in one line with the next step."""

import pytest

from forklift.git.failures import explain_fetch, explain_push, without_login


@pytest.mark.parametrize(
    ("stderr", "told"),
    [
        (
            "fatal: could not read Username for 'https://x': terminal prompts disabled",
            "wants a login",
        ),
        ("remote: HTTP Basic: Access denied\nfatal: Authentication failed", "wants a login"),
        ("git@x: Permission denied (publickey).", "refused the ssh key"),
        ("fatal: unable to access 'https://x/': Could not resolve host: x", "does not resolve"),
        ("remote: Repository not found.\nfatal: repository 'https://x/' not found", "no git repo"),
        ("fatal: detected dubious ownership in repository at '/x'", "belongs to another user"),
        ("error: RPC failed; curl 56 early EOF", "stopped in the middle"),
        ("fatal: write error: No space left on device", "the disk is full"),
        ("fatal: the moon is full", "fetching upstream (https://x/y) failed: fatal: the moon"),
    ],
)
def test_a_failed_fetch_is_explained(stderr: str, told: str) -> None:
    line = explain_fetch("upstream", "https://x/y", stderr)
    assert told in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("stderr", "told"),
    [
        (
            "! [remote rejected] b (refusing to allow a Personal Access Token to update workflow)",
            "`workflow` scope",
        ),
        ("remote: error: GH006: Protected branch update failed", "allow pushes to forklift/*"),
        ("! [remote rejected] b -> b (pre-receive hook declined)", "protection or a hook"),
        ("! [rejected] b -> b (stale info)", "moved on origin"),
        ("error: 'refs/heads/forklift' exists; cannot create", "a branch named 'forklift'"),
        ("remote: error: GH008: Your push referenced 3 unknown Git LFS objects", "git lfs push"),
        ("fatal: unable to access 'https://x/': The requested URL returned error: 403", "write"),
    ],
)
def test_a_refused_push_is_explained(stderr: str, told: str) -> None:
    assert told in explain_push("origin", "https://x/y", stderr)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://ada:pw@example.org/x.git", "https://example.org/x.git"),
        ("git@example.org:x.git", "git@example.org:x.git"),
        ("/srv/x.git", "/srv/x.git"),
    ],
)
def test_a_url_is_shown_without_its_login(url: str, shown: str) -> None:
    assert without_login(url) == shown
    assert "pw" not in explain_fetch("origin", url, f"fatal: unable to access '{url}/': odd")
