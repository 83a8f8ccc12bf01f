"""The pull request's words."""

from dataclasses import replace

from forklift.core.merge_verdict import Decision
from forklift.core.model_access import Usage
from forklift.core.pull_request import CheckRun, Story, body, title

STORY = Story(
    run_id="greeter_20240213_080456",
    upstream_name="https://example.org/greeter.git",
    upstream_ref="main",
    base="main",
    old_upstream="a" * 40,
    new_upstream="b" * 40,
    commit_count=2,
    commits=("Second version", "Fix @ada's bug, closes #12"),
    by_agent=True,
    decisions=(Decision("greet.py", "conflict, settled by hand"),),
    conflicts=("greet.py",),
    checks=(CheckRun("make test", True),),
    said="I kept Moin. @everyone closes #7",
    model="anthropic/claude",
    usage=Usage(requests=3, input_tokens=100, output_tokens=20, usd=0.0123),
)


def test_the_title_tells_how_much_comes_from_where() -> None:
    assert title(STORY) == "Merge upstream main (2 commits, to bbbbbbbbbb)"


def test_the_agents_decisions_come_before_everything_else() -> None:
    text = body(STORY)
    assert text.startswith("**Where the agent decided**")
    assert text.index("greet.py") < text.index("Second version")


def test_a_draft_says_why_before_anything_else() -> None:
    text = body(replace(STORY, doubts=("protected paths changed: vendor/x",)))
    assert text.startswith("**Draft, because:**\n\n- protected paths changed: vendor/x")


def test_what_the_agent_says_is_quoted_and_can_neither_mention_nor_close() -> None:
    said = body(STORY).split("What the agent said")[1]
    assert "> I kept Moin." in said
    assert "@everyone" not in said
    assert "closes #7" not in said


def test_a_commit_subject_can_neither_mention_people_nor_close_issues() -> None:
    assert "`Fix @ada's bug, closes #12`" in body(STORY)


def test_a_path_cannot_break_out_of_its_code_span() -> None:
    evil = replace(STORY, decisions=(Decision("a`b @x", "edited"),))
    assert "``a`b @x``" in body(evil)


def test_the_cost_and_the_run_are_at_the_end() -> None:
    assert "3 requests, 120 tokens, $0.0123" in body(STORY)
    assert "greeter_20240213_080456" in body(STORY).splitlines()[-1]


def test_a_merge_without_an_agent_says_so() -> None:
    text = body(replace(STORY, by_agent=False, said="", decisions=(), model="", usage=None))
    assert text.startswith("Git merged this alone")
    assert "cost" not in text


def test_a_body_is_never_longer_than_a_forge_takes() -> None:
    many = tuple(Decision("d/" + "x" * 300 + str(n), "edited") for n in range(10_000))
    assert len(body(replace(STORY, decisions=many, said="y" * 200_000))) <= 65_000
