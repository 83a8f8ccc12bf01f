"""The reference says what the code does: its examples are read, its tables are complete."""

import re
from pathlib import Path

import pytest

from forklift.core import fork_notes
from forklift.core.model_access import KNOWN_PROVIDERS
from forklift.settings import forges, forks, opencode, read_forges, read_forks, read_opencode_env
from forklift.settings.environment import DEFAULT_IMAGE, IGNORED, VARIABLES

PAGE = (Path(__file__).parents[3] / "docs/reference/configuration.md").read_text()


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def example(title: str) -> str:
    found = re.search(r"```\w+\n(.*?)```", section(title), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("Environment variables", (*VARIABLES, IGNORED, DEFAULT_IMAGE)),
        ("`opencode.env`", (*opencode.KEYS, *KNOWN_PROVIDERS)),
        ("`forges.toml`", forges.KEYS),
        ("`forks.toml`", forks.KEYS),
        ("`FORK.md`", fork_notes.KEYS),
    ],
)
def test_names_everything_that_can_be_set(title: str, names: tuple[str, ...]) -> None:
    assert [name for name in names if f"`{name}`" not in section(title)] == []


def private(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_its_opencode_env_becomes_valid_once_the_key_is_pasted(tmp_path: Path) -> None:
    text = example("`opencode.env`").replace("paste the key here", "sk-x")
    env = read_opencode_env(private(tmp_path / "opencode.env", text))
    assert env.model.startswith("anthropic/")


def test_its_forges_toml_is_valid(tmp_path: Path) -> None:
    private(tmp_path / "gitlab-token", "tok-1\n")
    text = example("`forges.toml`").replace("paste the token here without spaces", "tok-2")
    found = read_forges(private(tmp_path / "forges.toml", text))
    assert [forge.kind for forge in found] == ["gitea", "gitlab"]


def test_its_forks_toml_is_valid(tmp_path: Path) -> None:
    found = read_forks(private(tmp_path / "forks.toml", example("`forks.toml`")))
    assert len(found) == 2
    assert found[1].draft


def test_its_front_matter_is_valid() -> None:
    notes = fork_notes.parse(example("`FORK.md`"))
    assert notes.test == ("npm test", "npm run lint")
    assert notes.protect == ("/src/auth", "vendor/", "*.lock")
