"""What every `PullRequests` must do, on whatever forge.

For an adapter, in its tests:

    class TestMyForge(PullRequestsConformance):
        @pytest.fixture
        def stage(self) -> Stage: ...

An adapter whose forge also runs in this process takes `forge_faults.ForgeFaults` besides.
"""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from forklift.errors import ForgeError
from forklift.forges.port import Proposal, PullRequests, State
from forklift.testing.forge_stage import Stage

_ODD = "forklift/a+b&c=d#1%20ü"
"""A branch name that Git allows and a URL does not."""


def proposal(head: str = "forklift/upstream-1", title: str = "Merge upstream") -> Proposal:
    return Proposal(head=head, base="main", title=title, body="What came, and why.\n")


class PullRequestsConformance:
    @pytest.fixture
    def stage(self) -> Stage:
        raise NotImplementedError("an adapter's test class says on which stage it plays")

    @pytest.fixture
    async def pulls(self, stage: Stage) -> AsyncIterator[PullRequests]:
        pulls = stage.adapter()
        yield pulls
        await pulls.aclose()

    async def test_probing_names_the_owner_of_the_token(
        self, stage: Stage, pulls: PullRequests
    ) -> None:
        assert await pulls.probe() == stage.owner

    async def test_a_proposal_becomes_an_open_pull_request(
        self, stage: Stage, pulls: PullRequests
    ) -> None:
        stage.add_branch("forklift/upstream-1")

        opened = await pulls.create(proposal())

        assert (opened.head, opened.base) == ("forklift/upstream-1", "main")
        assert (opened.title, opened.state, opened.draft) == ("Merge upstream", State.OPEN, False)
        assert opened.url.endswith(f"/{opened.number}")
        assert opened.notes == ()
        assert stage.shown(opened.number).title == "Merge upstream"
        assert stage.shown(opened.number).body == "What came, and why.\n"

    async def test_asking_twice_leaves_one_and_the_second_text_counts(
        self, stage: Stage, pulls: PullRequests
    ) -> None:
        stage.add_branch("forklift/upstream-1")

        first = await pulls.create(proposal())
        second = await pulls.create(proposal(title="Merge upstream, again"))

        assert second.number == first.number
        assert stage.count() == 1
        assert stage.shown(first.number).title == "Merge upstream, again"

    async def test_a_closed_one_is_not_opened_again_but_followed_by_a_new_one(
        self, stage: Stage, pulls: PullRequests
    ) -> None:
        stage.add_branch("forklift/upstream-1")
        first = await pulls.create(proposal())
        stage.settle(first.number, State.CLOSED)

        second = await pulls.create(proposal())

        assert second.number != first.number
        found = await pulls.find_by_head("forklift/upstream-1")
        assert found is not None
        assert (found.number, found.state) == (second.number, State.OPEN)

    async def test_the_open_ones_are_those_of_the_prefix_and_the_base_newest_first(
        self, stage: Stage, pulls: PullRequests
    ) -> None:
        for head in ("forklift/upstream-1", "forklift/upstream-2", "other", "forklift/closed"):
            stage.add_branch(head)
            await pulls.create(proposal(head))
        closed = await pulls.find_by_head("forklift/closed")
        assert closed is not None
        stage.settle(closed.number, State.CLOSED)

        found = await pulls.find_open("forklift/", "main")

        assert [pull.head for pull in found] == ["forklift/upstream-2", "forklift/upstream-1"]
        assert await pulls.find_open("forklift/", "develop") == []

    @pytest.mark.parametrize("state", [State.CLOSED, State.MERGED])
    async def test_one_that_is_settled_is_found_by_its_head_with_its_state(
        self, stage: Stage, pulls: PullRequests, state: State
    ) -> None:
        stage.add_branch("forklift/upstream-1")
        opened = await pulls.create(proposal())
        stage.settle(opened.number, state)

        found = await pulls.find_by_head("forklift/upstream-1")

        assert found is not None
        assert (found.number, found.state) == (opened.number, state)

    async def test_a_head_that_merely_begins_so_is_another_head(
        self, stage: Stage, pulls: PullRequests
    ) -> None:
        stage.add_branch("forklift/upstream-10")
        await pulls.create(proposal("forklift/upstream-10"))

        assert await pulls.find_by_head("forklift/upstream-1") is None

    async def test_a_forks_branch_of_the_same_name_is_not_taken_for_ours(
        self, stage: Stage, pulls: PullRequests
    ) -> None:
        stage.open_from_fork("forklift/upstream-1")

        assert await pulls.find_open("forklift/", "main") == []
        assert await pulls.find_by_head("forklift/upstream-1") is None

        stage.add_branch("forklift/upstream-1")
        opened = await pulls.create(proposal())

        assert stage.count() == 2
        found = await pulls.find_by_head("forklift/upstream-1")
        assert found is not None
        assert found.number == opened.number

    async def test_all_of_many_are_found_page_after_page(
        self, stage: Stage, pulls: PullRequests
    ) -> None:
        stage.open_many(121, "many/")

        found = await pulls.find_open("many/", "main")

        assert len({pull.number for pull in found}) == len(found) == 121
        assert [pull.number for pull in found] == sorted(
            (pull.number for pull in found), reverse=True
        )

    async def test_the_oldest_of_many_is_found_by_its_head(
        self, stage: Stage, pulls: PullRequests
    ) -> None:
        stage.open_many(121, "many/")

        found = await pulls.find_by_head("many/0")

        assert found is not None
        assert found.head == "many/0"

    async def test_a_branch_name_that_no_url_may_hold_is_no_trouble(
        self, stage: Stage, pulls: PullRequests
    ) -> None:
        stage.add_branch(_ODD)

        opened = await pulls.create(proposal(_ODD))

        assert (await pulls.create(proposal(_ODD))).number == opened.number
        found = await pulls.find_by_head(_ODD)
        assert found is not None
        assert (found.number, found.head) == (opened.number, _ODD)

    async def test_a_draft_is_made_ready_and_a_draft_again(
        self, stage: Stage, pulls: PullRequests
    ) -> None:
        stage.add_branch("forklift/upstream-1")
        ready, draft = proposal(), replace(proposal(), draft=True)

        opened = await pulls.create(draft)
        assert (opened.draft, opened.title, opened.notes) == (True, "Merge upstream", ())
        for wanted in (ready, draft, draft, ready):
            updated = await pulls.update(opened.number, wanted)
            assert (updated.draft, updated.title, updated.notes) == (
                wanted.draft,
                "Merge upstream",
                (),
            )
            found = await pulls.find_by_head("forklift/upstream-1")
            assert found is not None
            assert found.draft is wanted.draft

    async def test_a_title_that_looks_like_a_draft_does_not_make_one(
        self, stage: Stage, pulls: PullRequests
    ) -> None:
        stage.add_branch("forklift/upstream-1")

        opened = await pulls.create(proposal(title="WIP: Draft: [wip] Merge"))

        found = await pulls.find_by_head("forklift/upstream-1")
        assert not opened.draft
        assert found is not None
        assert not found.draft

    async def test_an_update_makes_title_and_text_so(
        self, stage: Stage, pulls: PullRequests
    ) -> None:
        stage.add_branch("forklift/upstream-1")
        opened = await pulls.create(proposal())

        await pulls.update(opened.number, replace(proposal(title="Another"), body="Other words"))

        shown = stage.shown(opened.number)
        assert (shown.title, shown.body) == ("Another", "Other words")

    async def test_a_title_too_long_for_any_forge_is_cut(
        self, stage: Stage, pulls: PullRequests
    ) -> None:
        stage.add_branch("forklift/upstream-1")

        opened = await pulls.create(replace(proposal(title="x" * 1_000), draft=True))

        assert len(stage.shown(opened.number).title) <= 255

    async def test_a_title_of_several_lines_becomes_one(
        self, stage: Stage, pulls: PullRequests
    ) -> None:
        stage.add_branch("forklift/upstream-1")

        opened = await pulls.create(proposal(title="Merge\nupstream\x1b[31m"))

        assert stage.shown(opened.number).title == "Merge upstream\\x1b[31m"

    async def test_a_known_label_is_set_and_an_unknown_one_is_a_note_and_never_made(
        self, stage: Stage, pulls: PullRequests
    ) -> None:
        stage.add_branch("forklift/upstream-1")
        before = stage.known_labels()

        opened = await pulls.create(replace(proposal(), labels=("nonsense", stage.label)))

        assert stage.shown(opened.number).labels == {stage.label}
        assert len(opened.notes) == 1
        assert "nonsense" in opened.notes[0]
        assert stage.known_labels() == before

    async def test_people_are_assigned_and_asked_and_strangers_become_notes(
        self, stage: Stage, pulls: PullRequests
    ) -> None:
        stage.add_branch("forklift/upstream-1")
        people = ("nobody-of-that-name", stage.helper)

        opened = await pulls.create(replace(proposal(), assignees=people, reviewers=people))

        shown = stage.shown(opened.number)
        assert (shown.assignees, shown.reviewers) == ({stage.helper}, {stage.helper})
        assert len(opened.notes) == 2
        assert all("nobody-of-that-name" in note for note in opened.notes)

    async def test_an_update_adds_people_and_takes_none_away(
        self, stage: Stage, pulls: PullRequests
    ) -> None:
        stage.add_branch("forklift/upstream-1")
        opened = await pulls.create(replace(proposal(), assignees=(stage.owner,)))

        await pulls.update(opened.number, replace(proposal(), assignees=(stage.helper,)))
        await pulls.update(opened.number, proposal())

        assert stage.shown(opened.number).assignees == {stage.owner, stage.helper}

    async def test_a_head_that_was_never_pushed_is_refused(self, pulls: PullRequests) -> None:
        with pytest.raises(ForgeError):
            await pulls.create(proposal("never-pushed"))

    async def test_a_number_that_does_not_exist_is_named(self, pulls: PullRequests) -> None:
        with pytest.raises(ForgeError, match="pull request 9999"):
            await pulls.update(9999, proposal())
