"""Rules that the review would otherwise repeat."""

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import forklift
from forklift import errors
from forklift.cli.exit_codes import EXIT_CODES, exit_code
from forklift.core import outcome
from forklift.core.outcome import ERROR_WORDS, WORDS
from forklift.plugins import GROUPS

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "forklift").rglob("*.py"))
MAY_START_PROCESSES = (
    "git/", "sandboxes/", "sidecar/", "guest/", "testing/",
    "forges/gh_token.py", "cli/image.py",
)  # fmt: skip
STARTERS = re.compile(
    r"^(subprocess\.|asyncio\.create_subprocess|os\.(exec|spawn|popen|system|fork))"
)
MAY_CATCH_ALL = {
    "cli/app.py": "the command's edge",
    "sidecar/process.py": "a sidecar's edge",
    "guest/init.py": "PID 1 must not die of anything",
    "sidecar/egress.py": "one connection's edge: a bug in it must not close the door for others",
    "sidecar/model.py": "one connection's edge: a bug in it must not close the door for others",
}
LONGEST = 450
MAY_BE_LONG = {"guest/init.py": "one file by nature: it is copied into the image as it is"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT / "src" / "forklift").as_posix()


def modules() -> Iterator[tuple[str, ast.Module]]:
    return ((name_of(path), ast.parse(path.read_text())) for path in SOURCES)


def calls(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def test_only_few_places_start_processes() -> None:
    found = {
        name: started
        for name, tree in modules()
        if not name.startswith(MAY_START_PROCESSES)
        and (started := [call for call in calls(tree) if STARTERS.match(call)])
    }
    assert found == {}


def test_every_module_says_what_it_is() -> None:
    assert [name for name, tree in modules() if tree.body and not ast.get_docstring(tree)] == []


def test_everything_is_caught_at_a_processs_edge_only() -> None:
    broad = {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) == "Exception")
        and not name.startswith("testing/")
    }
    assert broad <= set(MAY_CATCH_ALL)


def test_no_module_is_too_long_to_read_in_one_sitting() -> None:
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in SOURCES}
    long = {name: lines for name, lines in lengths.items() if lines > LONGEST}
    assert set(long) <= set(MAY_BE_LONG)


def test_core_knows_no_clock_no_files_and_no_logging() -> None:
    forbidden = re.compile(
        r"(open|print|datetime\.now|time\.\w+|os\.\w+|logging\..*|.*\.read_text)$"
    )
    for path in SOURCES:
        if name_of(path).startswith("core/"):
            used = [call for call in calls(ast.parse(path.read_text())) if forbidden.match(call)]
            assert used == [], name_of(path)


def test_the_guest_uses_the_standard_library_only() -> None:
    for path in SOURCES:
        if not name_of(path).startswith("guest/"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert all(name.split(".")[0] in sys.stdlib_module_names for name in names), names


def error_classes(kind: type[errors.ForkliftError]) -> Iterator[type[errors.ForkliftError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from error_classes(below)


def test_every_error_in_the_tree_has_a_word_and_an_exit_code() -> None:
    for info in pkgutil.walk_packages(forklift.__path__, "forklift."):
        if not info.name.endswith("__main__"):
            importlib.import_module(info.name)
    for kind in error_classes(errors.ForkliftError):
        assert exit_code(kind.__new__(kind)) in EXIT_CODES.values(), kind


def test_every_end_has_a_word_and_an_exit_code() -> None:
    ends = outcome.End.__args__
    assert set(ends) == set(WORDS)
    assert {*WORDS.values(), *ERROR_WORDS.values()} - {"interrupted"} <= set(EXIT_CODES)


def test_the_error_tree_in_the_docstring_is_the_error_tree() -> None:
    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__ or ""))
    here = {kind.__name__ for kind in error_classes(errors.ForkliftError)}
    own = {name for name in here if hasattr(errors, name)}
    assert drawn | {"ForkliftError"} == own


def test_every_built_in_adapter_loads_through_the_door_that_third_parties_use() -> None:
    for group in GROUPS:
        for entry in entry_points(group=group):
            assert callable(entry.load()), entry


def test_no_adapter_is_named_outside_its_own_file_and_the_entry_points() -> None:
    adapters = re.compile(r"import (OpenCode|DockerSandboxes|\w+PullRequests)$", re.MULTILINE)
    for path in SOURCES:
        name = name_of(path)
        if name.startswith(("testing/",)) or name.endswith("/port.py"):
            continue
        found = [m for m in adapters.findall(path.read_text()) if m != "PullRequests"]
        assert found == [], name


def test_the_version_is_told_without_importing_the_product() -> None:
    told = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "forklift.cli.app", "--version"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout == f"forklift {forklift.__version__}\n"
    for heavy in ("asyncio", "pydantic", "httpx2", "yaml", "forklift.usecases"):
        assert f"| {heavy}" not in re.sub(r" +", " ", told.stderr)


def tracked_text() -> Iterator[tuple[str, str]]:
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file() and path.stat().st_size < 2 << 20:
            yield name, path.read_text(errors="ignore")


def test_no_package_registrys_host_is_written_anywhere() -> None:
    # Spelled in parts, so that this file does not name them either.
    hosts = ("py" + "pi.org", "python" + "hosted.org", "registry." + "npmjs", "deb." + "debian.org")
    named = [(name, host) for name, text in tracked_text() for host in hosts if host in text]
    assert named == []


def test_the_locks_hold_hashes_and_no_index_addresses() -> None:
    for lock in (ROOT / "requirements").glob("*.txt"):
        text = lock.read_text()
        assert "--hash=sha256:" in text
        assert "://" not in text
        assert "--index-url" not in text
