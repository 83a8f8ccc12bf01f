"""Turning a pull request into a draft and back: GitHub has this in GraphQL only."""

from pydantic import BaseModel, TypeAdapter

from forklift.core.text import one_line
from forklift.forges.http import ForgeClient
from forklift.forges.notes import note

_TO_DRAFT = """mutation($id: ID!) {
  convertPullRequestToDraft(input: {pullRequestId: $id}) { pullRequest { isDraft } }
}"""
_TO_READY = """mutation($id: ID!) {
  markPullRequestReadyForReview(input: {pullRequestId: $id}) { pullRequest { isDraft } }
}"""


class _Complaint(BaseModel):
    message: str = ""


class _Result(BaseModel):
    """Errors come with status 200."""

    errors: list[_Complaint] = []


_RESULT = TypeAdapter(_Result)


async def set_draft(api: ForgeClient, node_id: str, *, draft: bool) -> list[str]:
    """Why it was refused; nothing when it was done."""
    query = _TO_DRAFT if draft else _TO_READY
    answer = await api.ask("POST", "/graphql", body={"query": query, "variables": {"id": node_id}})
    refused = "the draft state was not changed"
    if not answer.ok:
        return note(api, refused, answer)
    errors = api.read(answer, _RESULT).errors
    return [api.redacted(one_line(f"{refused}: {error.message}", 300)) for error in errors]
