"""What "merged" means, case by case, without a repository."""

from dataclasses import replace

import pytest

from forklift.core.merge_verdict import Decision, MergeFacts, Sides, judge, named

MARKED = b"<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> upstream/main\n"


def side(path: str, **ids: str | None) -> Sides:
    """A path: base, fork, upstream and automatic merge are alike unless told otherwise."""
    base = ids.get("base", "b")
    return Sides(
        path=path,
        base=base,
        fork=ids.get("fork", base),
        upstream=ids.get("upstream", base),
        automatic=ids.get("automatic", base),
        result=ids.get("result", base),
    )


def facts(*sides: Sides, **changes: object) -> MergeFacts:
    good = MergeFacts(
        has_upstream=True,
        has_fork=True,
        merge_in_progress=False,
        same_tree_as_fork=False,
        upstream_changed_files=True,
        automatic_is_fork=False,
        conflicts=frozenset(),
        sides=sides,
    )
    return replace(good, **changes)  # pyright: ignore[reportArgumentType] - a builder for tests


def in_vendor(path: str) -> bool:
    return path.startswith("vendor/")


def test_a_plain_merge_is_sound_and_has_no_decisions() -> None:
    verdict = judge(facts(side("a", upstream="u", automatic="u", result="u")), {})
    assert verdict.sound
    assert verdict.doubts == ()
    assert verdict.decisions == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"has_fork": False}, "history rewritten"),
        ({"has_upstream": False}, "upstream's commits are not in the result"),
        ({"merge_in_progress": True}, "a merge is still in progress"),
        ({"same_tree_as_fork": True}, "an 'ours' merge"),
    ],
)
def test_a_result_is_withheld(change: dict[str, object], reason: str) -> None:
    verdict = judge(facts(**change), {})
    assert not verdict.sound
    assert reason in " ".join(verdict.withheld)


def test_a_fork_that_had_all_of_upstreams_changes_already_is_no_ours_merge() -> None:
    assert judge(facts(same_tree_as_fork=True, automatic_is_fork=True), {}).sound


def test_upstream_commits_without_a_change_of_files_make_no_ours_merge() -> None:
    assert judge(facts(same_tree_as_fork=True, upstream_changed_files=False), {}).sound


def test_conflict_markers_left_in_a_file_are_found() -> None:
    marked = side("a.py", fork="f", upstream="u", automatic="m", result="m")
    verdict = judge(facts(marked, conflicts=frozenset({"a.py"})), {"m": MARKED})
    assert verdict.withheld == ("conflict markers are left in a.py",)


def test_a_single_leftover_divider_in_a_conflicted_file_is_found() -> None:
    left = side("a.py", fork="f", upstream="u", automatic="m", result="r")
    verdict = judge(facts(left, conflicts=frozenset({"a.py"})), {"r": b"one\n=======\ntwo\n"})
    assert not verdict.sound


def test_markers_that_both_sides_brought_are_documentation() -> None:
    page = side("howto.md", fork="f", upstream="u", automatic="m", result="r")
    known = {"f": MARKED, "u": MARKED, "r": MARKED + MARKED}
    assert judge(facts(page), known).sound


def test_a_heading_underlined_with_seven_signs_is_no_conflict() -> None:
    page = side("guide.rst", fork="f", upstream="u", automatic="m", result="r")
    assert judge(facts(page), {"r": b"Install\n=======\n"}).sound


@pytest.mark.parametrize(
    "path", ["STUCK.md", "FORK.md", ".agents/FORK.md", "fork-context.md", "harness-state/x"]
)
def test_files_of_the_run_itself_must_not_be_committed(path: str) -> None:
    added = side(path, base=None, result="new")
    verdict = judge(facts(added), {})
    assert verdict.withheld == (f"files of the run itself were committed: {path}",)


def test_a_fork_md_that_upstream_or_the_fork_holds_is_theirs() -> None:
    kept = side("FORK.md", base=None, fork="f", automatic="f", result="f")
    assert judge(facts(kept), {}).sound


def test_a_fork_change_that_git_would_have_kept_and_the_agent_dropped_makes_a_draft() -> None:
    lost = side("auth.py", fork="f", upstream="u", automatic="both", result="u")
    verdict = judge(facts(lost), {})
    assert verdict.sound
    assert verdict.doubts == (
        "the fork's change is gone although Git alone would have kept it: auth.py",
    )


def test_a_fork_file_that_the_agent_deleted_makes_a_draft() -> None:
    lost = side("ours.md", base=None, fork="f", upstream=None, automatic="f", result=None)
    assert "ours.md" in judge(facts(lost), {}).doubts[0]


def test_a_fork_change_that_upstream_deletes_cleanly_is_gits_own_doing() -> None:
    gone = side("old.py", fork="b", upstream=None, automatic=None, result=None)
    assert judge(facts(gone), {}).doubts == ()


def test_a_conflict_settled_as_in_upstream_is_a_decision_and_no_doubt() -> None:
    settled = side("a.py", fork="f", upstream="u", automatic="m", result="u")
    verdict = judge(facts(settled, conflicts=frozenset({"a.py"})), {})
    assert verdict.doubts == ()
    assert verdict.decisions == (Decision("a.py", "conflict, settled as in upstream"),)


def test_a_protected_path_that_changed_makes_a_draft() -> None:
    changed = side("vendor/x", upstream="u", automatic="u", result="u")
    verdict = judge(facts(changed, is_protected=in_vendor), {})
    assert verdict.protected == ("vendor/x",)
    assert verdict.doubts == ("protected paths changed: vendor/x",)


@pytest.mark.parametrize(
    ("ids", "what"),
    [
        ({"result": "x"}, "changed by the agent alone"),
        ({"fork": "f", "automatic": "f", "result": "b"}, "taken from upstream"),
        ({"upstream": "u", "automatic": "u", "result": "b"}, "kept as in the fork"),
        ({"fork": "f", "upstream": "u", "automatic": "m", "result": "x"}, "edited by the agent"),
    ],
)
def test_each_file_that_differs_from_the_automatic_merge_is_named_with_what_was_done(
    ids: dict[str, str], what: str
) -> None:
    decisions = judge(facts(side("a", **ids)), {}).decisions
    assert [decision.path for decision in decisions] == ["a"]
    assert decisions[0].what.startswith(what)


def test_many_paths_are_named_by_the_first_few() -> None:
    assert named([f"p{n}" for n in range(7)]) == "p0, p1, p2, p3, p4 and 2 more"
