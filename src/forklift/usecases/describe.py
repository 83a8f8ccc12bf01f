"""Put what a run found into words: the forecast, the record, the pull request."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from forklift.core import outcome, pull_request
from forklift.core.merge_verdict import Verdict, named
from forklift.core.model_access import ModelChoice, Usage
from forklift.core.pull_request import Story
from forklift.core.text import one_line
from forklift.git.bare import BareRepository, Forecast
from forklift.sandboxes.port import Image
from forklift.stores.redacted_json import Json
from forklift.usecases.kit import Kit
from forklift.usecases.parcel import Parcel
from forklift.usecases.run_agent import AgentDone
from forklift.usecases.run_checks import Checked
from forklift.usecases.survey import Ground, Heads

_MOST_COMMITS = 20
_HOW_TO_MERGE = (
    "Merge this with a merge commit: a squash or a rebase would lose upstream's history, and the"
    " same merge would come again."
)


@dataclass(frozen=True, slots=True)
class Findings:
    """What is known about a result once it is judged."""

    commit: str
    forecast: Forecast
    verdict: Verdict
    checked: Checked
    agent: AgentDone | None
    run_id: str
    usage: Usage
    choice: ModelChoice


async def describe_forecast(ground: Ground, heads: Heads, forecast: Forecast) -> outcome.Forecast:
    """The dry run's answer."""
    brings = await ground.depot.count(heads.upstream, f"^{heads.origin}")
    commits = await ground.depot.log(heads.upstream, f"^{heads.origin}", most=_MOST_COMMITS)
    how = (
        "and merges cleanly"
        if forecast.clean
        else f"and conflicts in {len(forecast.conflicts)}: {named(forecast.conflicts)}"
    )
    plural = "" if brings == 1 else "s"
    return outcome.Forecast(
        f"upstream {heads.upstream_ref} brings {brings} commit{plural} {how}",
        forecast.conflicts,
        tuple(f"{commit.oid[:10]} {one_line(commit.subject)}" for commit in commits),
    )


class Scene(Protocol):
    @property
    def ground(self) -> Ground: ...
    @property
    def heads(self) -> Heads: ...
    @property
    def image(self) -> Image: ...


class Order(Protocol):
    @property
    def choice(self) -> ModelChoice: ...
    @property
    def agent(self) -> str: ...
    @property
    def target(self) -> str: ...


def metadata(kit: Kit, scene: Scene, order: Order) -> Mapping[str, Json]:
    """What the run is made from: written before the agent starts, changed never."""
    ground, heads, choice = scene.ground, scene.heads, order.choice
    return {
        "job": "sync",
        "project": ground.project,
        "fork": ground.key,
        "checkout": str(ground.checkout.root),
        "started": kit.clock().isoformat(timespec="seconds"),
        "origin": ground.origin.url,
        "origin_branch": heads.base,
        "origin_commit": heads.origin,
        "upstream": ground.upstream.url,
        "upstream_ref": heads.upstream_ref,
        "upstream_commit": heads.upstream,
        "target": order.target,
        "image": scene.image.name,
        "image_digest": scene.image.digest,
        "harness": scene.image.harness,
        "agent": f"{kit.agent.name}/{order.agent}",
        "model": f"{choice.provider.name}/{choice.model}",
        "variant": choice.variant,
        "egress": kit.egress.mode.value,
        "guest": [kit.guest.uid, kit.guest.gid],
        "owner_pid": kit.owner.pid,
        "versions": dict(kit.versions),
    }


async def parcel_of(
    repository: BareRepository, ground: Ground, heads: Heads, findings: Findings, branch: str
) -> Parcel:
    """The verified result with its pull request's words."""
    brings = (heads.upstream, f"^{heads.origin}")
    old, commits, count, remarks = await asyncio.gather(
        repository.merge_base(heads.origin, heads.upstream),
        repository.log(*brings, most=_MOST_COMMITS),
        repository.count(*brings),
        _remarks(repository, heads, findings.commit),
    )
    doubts = findings.verdict.doubts
    if findings.checked.regressed:
        doubts = (*doubts, "tests that pass on the fork before the merge fail on the result")
    agent = findings.agent
    story = Story(
        run_id=findings.run_id,
        upstream_name=ground.upstream.url,
        upstream_ref=heads.upstream_ref,
        base=heads.base,
        old_upstream=old or heads.origin,
        new_upstream=heads.upstream,
        commit_count=count,
        commits=tuple(commit.subject for commit in commits),
        by_agent=agent is not None,
        doubts=doubts,
        decisions=findings.verdict.decisions,
        conflicts=findings.forecast.conflicts,
        protected=findings.verdict.protected,
        checks=findings.checked.runs,
        remarks=tuple(remarks),
        said=agent.said.last_words if agent else "",
        model=f"{findings.choice.provider.name}/{findings.choice.model}" if agent else "",
        usage=findings.usage if agent else None,
    )
    return Parcel(
        findings.commit, branch, pull_request.title(story), pull_request.body(story), doubts
    )


async def _remarks(repository: BareRepository, heads: Heads, result: str) -> list[str]:
    remarks = [_HOW_TO_MERGE]
    if heads.dropped:
        remarks.append(
            f"Upstream was force-pushed: {heads.dropped} of its earlier commits are gone from it;"
            f" {heads.dropped_but_kept} of them are in this fork already and stay."
        )
    changes = await repository.changes(heads.origin, result)
    submodules = [c.path for c in changes if "160000" in {e.mode for e in (c.before, c.after) if e}]
    if submodules:
        remarks.append(f"Submodules moved: {named(submodules)}. Their contents were not looked at.")
    if "filter=lfs" in (await repository.file(result, ".gitattributes", 1 << 20) or ""):
        remarks.append(
            "Some files are kept in Git LFS; only their pointers were merged. If the push or the"
            " checkout lacks them: git lfs fetch --all upstream && git lfs push --all origin"
        )
    return remarks
