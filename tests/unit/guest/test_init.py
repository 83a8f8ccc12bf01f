"""Init's parts that need no sandbox."""

import ast
import json
import os
import sys
from pathlib import Path

import pytest

from forklift.guest import init
from forklift.guest.init import Fault, Job, Sink, make_environment, read_job, write_files


def job(*, egress: bool = True, **environment: str) -> Job:
    doors = {"egress": egress, "model": True}
    told = {
        "argv": ["a"], "env": environment, "files": {}, "stdin": "", "setup": [],
        "cwd": "/workspace", "transcript": None, "transcript_cap": 1, "seconds": 1, "doors": doors,
    }  # fmt: skip
    return read_job(json.dumps(told).encode())


def test_every_tool_is_pointed_at_the_door_and_loopback_past_it() -> None:
    environment = make_environment(job())
    for name in ("HTTP_PROXY", "https_proxy", "ALL_PROXY", "http_proxy", "HTTPS_PROXY"):
        assert environment[name] == "http://127.0.0.1:3128"
    assert environment["NO_PROXY"] == environment["no_proxy"] == "localhost,127.0.0.1,::1"
    assert environment["NODE_USE_ENV_PROXY"] == "1"
    assert "-Dhttps.proxyHost=127.0.0.1" in environment["JAVA_TOOL_OPTIONS"]
    assert environment["HOME"] == "/harness-state/home"


def test_without_the_egress_door_no_tool_is_told_of_a_proxy() -> None:
    environment = make_environment(job(egress=False))
    assert "HTTPS_PROXY" not in environment
    assert "JAVA_TOOL_OPTIONS" not in environment


def test_what_the_host_says_outranks_what_init_assumes() -> None:
    assert make_environment(job(GIT_AUTHOR_NAME="Somebody"))["GIT_AUTHOR_NAME"] == "Somebody"


def test_files_are_written_below_the_home_through_no_link(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    (home / ".config").symlink_to(elsewhere)
    (home / "notes").symlink_to(elsewhere / "notes")
    os.mkfifo(home / "pipe")
    write_files({".config/a/b.json": "{}", "notes": "n", "pipe": "p"}, str(home))
    assert (home / ".config/a/b.json").read_text() == "{}"
    assert (home / "notes").read_text() + (home / "pipe").read_text() == "np"
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("path", ["../x", "a/../../x", ".."])
def test_a_file_outside_the_home_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(Fault, match="outside"):
        write_files({path: "x"}, str(tmp_path))


def test_a_sink_takes_so_much_and_no_more(tmp_path: Path) -> None:
    file = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    sink = Sink(file, 5)
    for piece in (b"abc", b"def", b"ghi"):
        sink.write(memoryview(piece))
    os.close(file)
    assert (tmp_path / "log").read_bytes() == b"abcde"


def test_a_sink_whose_reader_is_gone_swallows() -> None:
    read, write = os.pipe()
    os.close(read)
    sink = Sink(write, 100)
    sink.write(memoryview(b"x"))
    sink.write(memoryview(b"y"))
    os.close(write)


def test_a_file_that_could_not_be_made_takes_nothing() -> None:
    Sink(-1, 100).write(memoryview(b"x"))


def test_the_wall_against_root_and_privileges_is_tried() -> None:
    with pytest.raises(init.Broken, match="privileges"):
        init.try_the_walls()  # this process has not even no-new-privileges


def test_init_needs_nothing_but_the_standard_library_and_python_3_8() -> None:
    source = Path(init.__file__).read_text()
    tree = ast.parse(source, feature_version=(3, 8))
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert names <= sys.stdlib_module_names
