"""What every `PullRequests` must do when the forge, the network or the token fails it.

Needs a forge in this process, because no real one fails when it is asked to.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forklift.core.secret import Secret
from forklift.errors import ForgeError
from forklift.forges.port import PullRequests
from forklift.testing.forge_conformance import proposal
from forklift.testing.forge_server import ForgeServer
from forklift.testing.forge_stage import ServerStage

_LISTING = r"/(pulls|merge_requests)$"


class ForgeFaults:
    @pytest.fixture
    def stage(self) -> ServerStage:
        raise NotImplementedError("an adapter's test class says on which stage it plays")

    @pytest.fixture
    async def adapter(self, stage: ServerStage) -> AsyncIterator[PullRequests]:
        stage.add_branch("forklift/upstream-1")
        adapter = stage.adapter()
        yield adapter
        await adapter.aclose()

    @pytest.fixture
    def elsewhere(self, stage: ServerStage, tmp_path: Path) -> ForgeServer:
        """Another forge of the same kind, on another host."""
        return type(stage.server)(tmp_path / "elsewhere")

    @pytest.mark.parametrize("status", [500, 502])
    async def test_a_failure_that_wrote_leaves_one(
        self, stage: ServerStage, adapter: PullRequests, status: int
    ) -> None:
        stage.server.fail("POST", _LISTING, status, after_writing=True)

        opened = await adapter.create(replace(proposal(), labels=(stage.label,)))

        assert stage.count() == 1
        assert stage.shown(opened.number).labels == {stage.label}
        assert _posts(stage) == 1

    async def test_a_connection_lost_after_writing_leaves_one(
        self, stage: ServerStage, adapter: PullRequests
    ) -> None:
        stage.server.drop("POST", _LISTING, after_writing=True)

        opened = await adapter.create(proposal())

        assert stage.count() == opened.number == 1

    async def test_a_failure_that_did_not_write_is_sent_again_once(
        self, stage: ServerStage, adapter: PullRequests
    ) -> None:
        stage.server.fail("POST", _LISTING, 502)

        await adapter.create(proposal())

        assert (stage.count(), _posts(stage)) == (1, 2)

    async def test_a_failure_that_stays_is_told_and_not_sent_for_ever(
        self, stage: ServerStage, adapter: PullRequests
    ) -> None:
        stage.server.fail("POST", _LISTING, 500, times=9)

        with pytest.raises(ForgeError, match=r"failed with 500.*run again later"):
            await adapter.create(proposal())

        assert (stage.count(), _posts(stage)) == (0, 2)

    async def test_one_that_somebody_opened_in_between_is_updated(
        self, stage: ServerStage, adapter: PullRequests
    ) -> None:
        there = stage.repository.add_pull_request("forklift/upstream-1", title="Old words")
        stage.server.fail("GET", _LISTING, 200, content=[])

        opened = await adapter.create(proposal())

        assert opened.number == there.number
        assert (stage.count(), there.title) == (1, "Merge upstream")

    @pytest.mark.parametrize("status", [502, 503, 504])
    async def test_a_read_is_repeated_when_a_proxy_says_later(
        self, stage: ServerStage, adapter: PullRequests, status: int
    ) -> None:
        stage.server.fail("GET", ".", status, times=2)

        assert await adapter.find_open("forklift/", "main") == []

    async def test_a_read_is_repeated_when_the_connection_is_lost(
        self, stage: ServerStage, adapter: PullRequests
    ) -> None:
        stage.server.drop("GET", ".", after_writing=False, times=2)

        assert await adapter.find_open("forklift/", "main") == []

    async def test_an_update_is_repeated_when_a_proxy_says_later(
        self, stage: ServerStage, adapter: PullRequests
    ) -> None:
        opened = await adapter.create(proposal())
        for method in ("PATCH", "PUT"):
            stage.server.fail(method, ".", 502)
            stage.server.drop(method, ".", after_writing=True)

        await adapter.update(opened.number, proposal(title="Another"))

        assert stage.shown(opened.number).title == "Another"

    async def test_a_read_that_keeps_failing_ends(
        self, stage: ServerStage, adapter: PullRequests
    ) -> None:
        stage.server.fail("GET", ".", 503, times=99)

        with pytest.raises(ForgeError, match="failed with 503"):
            await adapter.find_open("forklift/", "main")

        assert len(stage.server.requests) == 3

    async def test_a_label_that_fails_is_a_note_on_an_open_pull_request(
        self, stage: ServerStage, adapter: PullRequests
    ) -> None:
        stage.server.fail("GET", "/labels", 500, times=9)

        opened = await adapter.create(replace(proposal(), labels=(stage.label,)))

        assert stage.count() == 1
        assert len(opened.notes) == 1
        assert "label" in opened.notes[0]

    async def test_a_person_that_fails_is_a_note_on_an_open_pull_request(
        self, stage: ServerStage, adapter: PullRequests
    ) -> None:
        people = replace(proposal(), assignees=(stage.helper,), reviewers=(stage.helper,))
        opened = await adapter.create(proposal())
        for method, path in (
            ("POST", r"/(assignees|requested_reviewers)$"),
            ("GET", "/users$"),
        ):
            stage.server.fail(method, path, 500, times=9)

        updated = await adapter.update(opened.number, people)

        assert updated.number == opened.number
        assert any(stage.helper in note or "assigned" in note for note in updated.notes)

    async def test_people_without_access_become_notes_and_do_not_keep_others_out(
        self, stage: ServerStage, adapter: PullRequests
    ) -> None:
        people = (stage.outsider, stage.helper)

        opened = await adapter.create(replace(proposal(), assignees=people, reviewers=people))

        shown = stage.shown(opened.number)
        assert (shown.assignees, shown.reviewers) == ({stage.helper}, {stage.helper})
        assert len(opened.notes) == 2
        assert all(stage.outsider in note for note in opened.notes)

    async def test_a_redirect_is_told_and_the_token_stays_here(
        self, stage: ServerStage, adapter: PullRequests, elsewhere: ForgeServer
    ) -> None:
        with elsewhere:
            stage.server.move(stage.repository, f"{elsewhere.api_url}/repos/new/place?x=1")

            for attempt in (
                adapter.probe(),
                adapter.find_open("", "main"),
                adapter.create(proposal()),
            ):
                with pytest.raises(ForgeError, match=r"moved or renamed.*git remote set-url"):
                    await attempt

            assert elsewhere.requests == ()

    async def test_every_request_goes_to_the_forge_and_carries_its_token(
        self, stage: ServerStage, adapter: PullRequests
    ) -> None:
        await adapter.probe()
        await adapter.create(replace(proposal(), labels=(stage.label,), assignees=(stage.helper,)))

        assert {sent.authorization.split()[1] for sent in stage.server.requests} == {
            stage.token.reveal()
        }

    async def test_a_token_that_nobody_knows_is_told_with_what_to_do(
        self, stage: ServerStage
    ) -> None:
        wrong = Secret("0123456789abcdef0123456789abcdef01234567")

        words = await _refusal(stage, wrong)

        assert "refused the token" in words
        assert "make a new one" in words

    async def test_an_expired_token_is_told_with_what_to_do(self, stage: ServerStage) -> None:
        words = await _refusal(stage, stage.server.token_for(stage.owner, expired=True))

        assert "expired" in words
        assert "make a new one" in words

    async def test_a_token_without_the_scope_is_told_which_one(self, stage: ServerStage) -> None:
        words = await _refusal(stage, stage.server.token_for(stage.owner, scopes=["nothing"]))

        assert "scope" in words
        assert any(scope in words for scope in ("write:repository", "'repo'", "'api'"))

    async def test_a_user_who_may_only_read_is_told_before_any_work(
        self, stage: ServerStage
    ) -> None:
        words = await _refusal(stage, stage.server.token_for("reader"))

        assert "reader may not write" in words

    async def test_a_repository_that_is_archived_is_told_before_any_work(
        self, stage: ServerStage
    ) -> None:
        stage.repository.archived = True

        assert "archived" in await _refusal(stage, stage.token)

    async def test_a_repository_that_the_token_may_not_see_is_told_as_that(
        self, stage: ServerStage
    ) -> None:
        stage.repository.private = True

        words = await _refusal(stage, stage.server.token_for("stranger"))

        assert str(stage.repository.full_name) in words
        assert "may not see it" in words

    async def test_a_rate_limit_is_told_with_its_end(
        self, stage: ServerStage, adapter: PullRequests
    ) -> None:
        until = datetime.now(UTC) + timedelta(hours=2)
        stage.server.limit_rate(until)

        with pytest.raises(ForgeError, match=r"rate limit.*UTC.*run again then") as refused:
            await adapter.probe()

        # Some forges name the moment, others the seconds until then.
        moments = {f"{until + timedelta(seconds=late):%Y-%m-%d %H:%M:%S}" for late in (-1, 0, 1, 2)}
        assert any(moment in refused.value.message for moment in moments)

    async def test_a_rate_limit_on_writing_is_not_tried_again(
        self, stage: ServerStage, adapter: PullRequests
    ) -> None:
        stage.server.fail("POST", _LISTING, 429, headers={"Retry-After": "60"})

        with pytest.raises(ForgeError, match="rate limit"):
            await adapter.create(proposal())

        assert _posts(stage) == 1

    async def test_what_the_server_repeats_of_the_token_is_not_shown(
        self, stage: ServerStage, adapter: PullRequests
    ) -> None:
        said = {"message": f"bad token {stage.token.reveal()} \x1b[2J"}
        stage.server.fail("GET", ".", 403, content=said)

        with pytest.raises(ForgeError) as refused:
            await adapter.find_open("", "main")

        shown = refused.value.message + refused.value.detail
        assert stage.token.reveal() not in shown
        assert "\x1b" not in shown
        assert "\n" not in refused.value.message

    async def test_an_answer_of_another_kind_of_server_is_told_as_that(
        self, stage: ServerStage, adapter: PullRequests
    ) -> None:
        stage.server.fail("GET", ".", 200, content=b"<html>Please log in</html>")

        with pytest.raises(ForgeError, match=r"check the forge's kind and API address"):
            await adapter.find_open("", "main")


def _posts(stage: ServerStage) -> int:
    """How often a pull request was asked for."""
    paths = [sent.path for sent in stage.server.requests if sent.method == "POST"]
    return sum(path.endswith(("/pulls", "/merge_requests")) for path in paths)


async def _refusal(stage: ServerStage, token: Secret) -> str:
    adapter = stage.adapter_with(token)
    try:
        with pytest.raises(ForgeError) as refused:
            await adapter.probe()
    finally:
        await adapter.aclose()
    assert token.reveal() not in refused.value.message
    return refused.value.message
