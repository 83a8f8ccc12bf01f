"""What the documentation tells people to write into files is read by the code that reads them."""

import re
from pathlib import Path

import pytest

from forklift.core import fork_notes
from forklift.settings import read_forks, read_opencode_env
from tests.support.pages import all_pages

BLOCKS = [(page.name, block) for page in all_pages() for block in page.blocks()]


@pytest.mark.parametrize(
    ("page", "text"), [(page, b.text) for page, b in BLOCKS if b.text.startswith("---\n")]
)
def test_every_fork_md_can_be_read(page: str, text: str) -> None:
    notes = fork_notes.parse(text)
    assert notes.test, page


@pytest.mark.parametrize(
    ("page", "text"), [(page, b.text) for page, b in BLOCKS if "[[fork]]" in b.text]
)
def test_every_forks_toml_can_be_read(page: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "forks.toml").write_text(text)
    assert len(read_forks(tmp_path / "forks.toml")) > 1, page


HEREDOC = re.compile(r"^cat > \S*opencode\.env <<'END'\n(.*?)^END$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("page", "text"), [(page, found) for page, b in BLOCKS for found in HEREDOC.findall(b.text)]
)
def test_every_opencode_env_is_valid_once_the_key_is_pasted(
    page: str, text: str, tmp_path: Path
) -> None:
    path = tmp_path / "opencode.env"
    path.touch(mode=0o600)
    path.write_text(text.replace("paste the key here", "sk-x"))
    assert read_opencode_env(path).agent == "build", page


def test_all_three_kinds_are_found() -> None:
    texts = [block.text for _, block in BLOCKS]
    assert sum(text.startswith("---\n") for text in texts) >= 2
    assert sum("[[fork]]" in text for text in texts) >= 2
    assert sum(len(HEREDOC.findall(text)) for text in texts) == 2
