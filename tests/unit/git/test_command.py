"""The environments that git is started in."""

from pathlib import Path

import pytest

from forklift.git.command import alone, as_user, git


async def config_of(at: Path, env: dict[str, str], key: str) -> str:
    return (await git("config", "--get", key, at=at, env=env, ok=(0, 1))).text


async def test_what_the_caller_configures_through_the_environment_reaches_the_remotes_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "http.extraHeader")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "X-From: CI")
    assert await config_of(tmp_path, as_user(), "http.extraheader") == "X-From: CI"
    assert await config_of(tmp_path, alone(), "http.extraheader") == ""


async def test_a_hook_that_calls_us_does_not_hand_down_its_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nonexistent/index")
    for env in (alone(), as_user()):
        assert "GIT_DIR" not in env
        assert "GIT_INDEX_FILE" not in env
        assert (await git("version", at=tmp_path, env=env)).text.startswith("git version")


@pytest.mark.parametrize("given", ["ssh -i /k", ""])
def test_ssh_never_asks(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.delenv("GIT_SSH", raising=False)
    if given:
        monkeypatch.setenv("GIT_SSH_COMMAND", given)
    else:
        monkeypatch.delenv("GIT_SSH_COMMAND", raising=False)
    command = as_user([("core.sshCommand", "ssh -F /f")])["GIT_SSH_COMMAND"]
    assert command == f"{given or 'ssh -F /f'} -o BatchMode=yes"


def test_no_hook_of_the_users_runs(tmp_path: Path) -> None:
    for env in (alone(), as_user()):
        pairs = {
            env[f"GIT_CONFIG_KEY_{n}"]: env[f"GIT_CONFIG_VALUE_{n}"]
            for n in range(int(env["GIT_CONFIG_COUNT"]))
        }
        assert pairs["core.hooksPath"] == "/dev/null"
        assert pairs["core.fsmonitor"] == "false"


async def test_git_that_works_alone_cannot_take_all_the_memory(tmp_path: Path) -> None:
    asked = "!grep 'Max data size' /proc/self/limits"
    alias = ("-c", f"alias.limits={asked}", "limits")
    await git("init", "-q", at=tmp_path, env=alone())
    told = (await git(*alias, at=tmp_path, env=alone())).text
    assert told.split()[3] == str(4 << 30)
