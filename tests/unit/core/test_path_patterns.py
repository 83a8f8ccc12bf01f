import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forklift.core.path_patterns import matches


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("vendor/**", "vendor/a/b.c"),
        ("vendor/", "vendor/a/b.c"),
        ("vendor/", "lib/vendor/x"),
        ("vendor/", "vendor"),
        ("*.lock", "Cargo.lock"),
        ("*.lock", "a/b/yarn.lock"),
        ("/src/auth", "src/auth"),
        ("/src/auth", "src/auth/login.py"),
        ("docs/api", "docs/api/x"),
        ("**/secrets", "secrets"),
        ("**/secrets", "a/b/secrets/c"),
        ("a/**/z", "a/z"),
        ("a/**/z", "a/b/c/z"),
        ("file?.tx[tx]", "file1.txt"),
        ("[^a]b", "cb"),
        ("**", "anything/at/all"),
        ("/**", "anything"),
        ("**/", "anything"),
    ],
)
def test_matches(pattern: str, path: str) -> None:
    assert matches(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("vendor/**", "lib/vendor/x"),
        ("vendor/**", "vendor"),
        ("vendor/", "vendored/x"),
        ("*.lock", "lock"),
        ("/src/auth", "lib/src/auth"),
        ("/src/auth", "src/authority"),
        ("docs/api", "x/docs/api"),
        ("docs/*", "other/x"),
        ("a/*/z", "a/b/c/z"),
        ("[^a]b", "ab"),
        ("*.LOCK", "Cargo.lock"),
        ("/", "a"),
        ("", "a"),
    ],
)
def test_does_not_match(pattern: str, path: str) -> None:
    assert not matches(pattern, path)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("ignore")
    subprocess.run(["git", "init", "--quiet", str(at)], check=True)
    return at


SEGMENT = st.sampled_from(["a", "b", "ab", "*", "a*", "?", "**", "[ab]", "[^a]"])
MIDDLE = st.lists(SEGMENT, min_size=1, max_size=4).map("/".join)
PATTERN = st.tuples(st.sampled_from(["", "/"]), MIDDLE, st.sampled_from(["", "/"])).map("".join)
NAMES = ("a", "b", "ab")
PATHS = [f"{x}/{y}/{z}/file" for x in NAMES for y in NAMES for z in NAMES]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pattern=PATTERN)
def test_agrees_with_git_about_what_lies_inside_directories(repository: Path, pattern: str) -> None:
    (repository / ".git" / "info" / "exclude").write_text(pattern + "\n")
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin"],
        cwd=repository,
        input="\n".join(PATHS),
        capture_output=True,
        text=True,
        check=False,
    )
    # git's `x/` spares a file named x, ours does not: there, ask about the file's directory.
    asked = {path: path.removesuffix("/file") if pattern.endswith("/") else path for path in PATHS}
    assert [path for path in PATHS if matches(pattern, asked[path])] == done.stdout.splitlines()


def test_neither_a_cunning_pattern_nor_an_endless_path_stalls_it() -> None:
    assert not matches("**/" * 50 + "*a" * 50 + "b", "a/" * 5_000 + "a" * 200)
