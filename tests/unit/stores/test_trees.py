import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from forklift.errors import SetupError, UnsafeOutput
from forklift.stores.trees import hand_over, remove_tree

Unprivileged = Callable[[Callable[[], None]], None]
DEEP = 3_000


def dig(top: Path, depth: int) -> None:
    """Make a chain of directories deeper than any path may be long."""
    fd = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("deeper-and-deeper", dir_fd=fd)
        below = os.open("deeper-and-deeper", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    with open(os.open("bottom", os.O_WRONLY | os.O_CREAT, dir_fd=fd), "w") as file:
        file.write("here")
    os.close(fd)


def test_removes_a_tree_that_is_three_thousand_directories_deep(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    dig(tree, DEEP)
    assert remove_tree(tree) == ()
    assert not tree.exists()


def test_removes_links_and_leaves_what_they_lead_to(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("mine")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "to-directory").symlink_to(precious)
    (tree / "to-file").symlink_to(precious / "file")
    (tree / "up").symlink_to("..")
    os.mkfifo(tree / "pipe")
    assert remove_tree(tree) == ()
    assert (precious / "file").read_text() == "mine"


def test_removing_a_link_removes_the_link_alone(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to("kept")
    assert remove_tree(tmp_path / "link") == ()
    assert list(tmp_path.iterdir()) == [tmp_path / "kept"]


def test_a_missing_path_is_no_complaint(tmp_path: Path) -> None:
    assert remove_tree(tmp_path / "never-was") == ()


def test_opens_up_directories_that_their_owner_may_not_touch(
    their_directory: Path, unprivileged: Unprivileged
) -> None:
    def work() -> None:
        tree = their_directory / "tree"
        for mode in (0o000, 0o100, 0o444, 0o555):
            inner = tree / f"{mode:o}" / "inner"
            inner.mkdir(parents=True)
            (inner / "file").touch(mode=0o400)
            inner.chmod(mode)
            inner.parent.chmod(mode)
        assert remove_tree(tree) == ()
        assert not tree.exists()

    unprivileged(work)


def test_tells_what_it_could_not_delete_and_deletes_the_rest(
    their_directory: Path, unprivileged: Unprivileged
) -> None:
    def work() -> None:
        room = their_directory / "room"
        tree = room / "tree"
        (tree / "inner").mkdir(parents=True)
        room.chmod(0o500)
        try:
            assert remove_tree(tree) == ("tree: Permission denied",)
            assert list(room.iterdir()) == [tree]
            assert list(tree.iterdir()) == []
        finally:
            room.chmod(0o700)

    unprivileged(work)


def test_complains_at_most_twenty_times_and_counts_the_rest(
    unprivileged: Unprivileged,
) -> None:
    def work() -> None:
        complaints = remove_tree(Path(f"/proc/{os.getpid()}"))  # nobody can delete there
        assert len(complaints) == 21
        assert re.fullmatch(r"and \d+ more", complaints[-1])

    unprivileged(work)


def test_hands_over_everything_and_follows_no_link(tmp_path: Path) -> None:
    # Only root may give files away; anybody may give them to themselves.
    user, group = (1000, 1000) if os.geteuid() == 0 else (os.getuid(), os.getgid())
    outside = tmp_path / "outside"
    outside.write_text("mine")
    tree = tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "file").touch()
    (tree / "a" / "link").symlink_to(outside)
    hand_over(tree, user, group)
    given = [tree, *tree.rglob("*")]
    assert len(given) == 5
    assert {(p.lstat().st_uid, p.lstat().st_gid) for p in given} == {(user, group)}
    assert outside.stat().st_uid == os.getuid()


def test_hands_over_a_very_deep_tree(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    dig(tree, DEEP)
    hand_over(tree, os.getuid(), os.getgid())
    assert remove_tree(tree) == ()


def test_refuses_to_hand_over_what_is_not_ours_to_give(
    their_directory: Path, unprivileged: Unprivileged
) -> None:
    def work() -> None:
        (their_directory / "file").touch()
        with pytest.raises(SetupError, match=r"cannot hand .*file over to user 1: "):
            hand_over(their_directory / "file", 1, 1)

    unprivileged(work)


def test_refuses_to_hand_over_a_file_that_has_a_second_name(tmp_path: Path) -> None:
    (tmp_path / "host-file").touch()
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "same").hardlink_to(tmp_path / "host-file")
    with pytest.raises(UnsafeOutput, match="second name"):
        hand_over(tree / "same", os.getuid() + 1, os.getgid())
    assert (tmp_path / "host-file").stat().st_uid == os.getuid()
