import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from forklift.errors import SetupError
from forklift.settings import load
from forklift.settings.environment import VARIABLES, private_fallback


def private(path: Path) -> Path:
    path.mkdir(mode=0o700)
    return path


def test_follows_the_xdg_directories(tmp_path: Path) -> None:
    runtime = private(tmp_path / "run")
    found = load({"XDG_STATE_HOME": "/s", "XDG_CONFIG_HOME": "/c", "XDG_RUNTIME_DIR": str(runtime)})
    assert found.state_root == Path("/s/forklift")
    assert found.config_root == Path("/c/forklift")
    assert found.opencode_env == Path("/c/forklift/opencode.env")
    assert found.runtime_root == runtime / "forklift"
    assert found.warnings == ()


def test_falls_back_to_the_home_directory(tmp_path: Path) -> None:
    found = load({"HOME": str(tmp_path)})
    assert found.state_root == tmp_path / ".local/state/forklift"
    assert found.config_root == tmp_path / ".config/forklift"
    assert found.image == "forklift/kitchen-sink:latest"
    assert found.docker == "docker"
    assert found.extra_ca is None


def test_without_any_variable_as_under_cron_the_users_own_home_is_taken() -> None:
    home = pwd.getpwuid(os.getuid()).pw_dir
    assert load({}).state_root == Path(home) / ".local/state/forklift"


def test_a_relative_xdg_directory_is_ignored_with_a_warning(tmp_path: Path) -> None:
    found = load({"HOME": str(tmp_path), "XDG_STATE_HOME": "state"})
    assert found.state_root == tmp_path / ".local/state/forklift"
    assert found.warnings == ("XDG_STATE_HOME is ignored: 'state' is not an absolute path",)


def test_without_a_runtime_directory_sockets_go_to_a_private_one_of_ours(tmp_path: Path) -> None:
    for given in ({}, {"XDG_RUNTIME_DIR": str(tmp_path / "gone")}):
        root = load({"TMPDIR": str(tmp_path), **given}).runtime_root
        holder = root.parent if root.name == "forklift" else root
        assert holder in {Path(f"/run/user/{os.getuid()}"), tmp_path / f"forklift-{os.getuid()}"}
        assert holder.stat().st_mode & 0o777 == 0o700
        assert holder.stat().st_uid == os.getuid()


def test_a_runtime_directory_that_others_can_enter_is_not_used(tmp_path: Path) -> None:
    shared = private(tmp_path / "shared")
    shared.chmod(0o755)
    found = load({"XDG_RUNTIME_DIR": str(shared), "TMPDIR": str(tmp_path)})
    assert shared not in found.runtime_root.parents
    assert found.warnings == (f"XDG_RUNTIME_DIR is ignored: {shared} is open to other users",)


def test_a_planted_directory_in_the_shared_one_is_refused(tmp_path: Path) -> None:
    elsewhere = private(tmp_path / "elsewhere")
    link, opened, file = tmp_path / "link", tmp_path / "open", tmp_path / "file"
    link.symlink_to(elsewhere)
    opened.mkdir()
    opened.chmod(0o777)
    file.touch()
    for planted, words in ((link, "not a directory"), (opened, "other users"), (file, "no place")):
        with pytest.raises(SetupError, match=words) as caught:
            private_fallback(planted)
        assert "set XDG_RUNTIME_DIR" in caught.value.message
        assert "\n" not in caught.value.message


def test_reads_its_own_variables(tmp_path: Path) -> None:
    found = load(
        {
            "HOME": str(tmp_path),
            "FORKLIFT_IMAGE": "registry.example/mine:1",
            "FORKLIFT_EXTRA_CA": "~/ca.pem",
            "FORKLIFT_OPENCODE_ENV": "/etc/opencode.env",
            "FORKLIFT_DOCKER": "podman",
        }
    )
    assert found.image == "registry.example/mine:1"
    assert found.extra_ca == tmp_path / "ca.pem"
    assert found.opencode_env == Path("/etc/opencode.env")
    assert found.docker == "podman"
    assert found.warnings == ()


def test_an_empty_variable_is_as_none_at_all(tmp_path: Path) -> None:
    empty = load({"HOME": str(tmp_path), **dict.fromkeys(VARIABLES, "")})
    assert empty == load({"HOME": str(tmp_path)})


@pytest.mark.parametrize("value", ["--privileged", "a b", "a\nb", "a\x1bb"])
@pytest.mark.parametrize("name", ["FORKLIFT_IMAGE", "FORKLIFT_DOCKER"])
def test_a_program_or_image_that_reads_as_an_option_or_two_words_is_refused(
    name: str, value: str
) -> None:
    with pytest.raises(SetupError, match=name) as caught:
        load({name: value})
    assert caught.value.message.isprintable()


def test_a_container_command_of_ones_own_is_ignored_with_a_warning(tmp_path: Path) -> None:
    found = load({"HOME": str(tmp_path), "FORKLIFT_DOCKER_COMMAND": "sh -c evil"})
    assert found.docker == "docker"
    assert len(found.warnings) == 1
    assert "FORKLIFT_DOCKER_COMMAND is ignored" in found.warnings[0]
    assert "evil" not in found.warnings[0]


def test_a_misspelt_variable_is_told_with_the_likely_one(tmp_path: Path) -> None:
    found = load({"HOME": str(tmp_path), "FORKLIFT_IMGAE": "x", "OTHER": "y"})
    assert found.warnings == (
        "FORKLIFT_IMGAE is no setting and is ignored; did you mean 'FORKLIFT_IMAGE'?",
    )


def test_importing_the_settings_brings_in_no_heavy_library() -> None:
    program = (
        "import sys, forklift.settings;"
        "print(*sorted({'pydantic', 'yaml', 'httpx2', 'asyncio', 'tomllib'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
