"""Let the coding agent at the merge."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from forklift.agents.port import Order, Said
from forklift.core.instructions import Brief, instructions
from forklift.core.journal import Event
from forklift.core.model_access import Budget, ModelChoice, Usage
from forklift.core.outcome import AgentFailed, Stuck, TimedOut
from forklift.core.secret import Secret
from forklift.core.text import harmless, one_line
from forklift.errors import UnsafeOutput
from forklift.sidecar.control import Job
from forklift.sidecar.policy import ModelPolicy
from forklift.stores.files import replace_atomically
from forklift.stores.untrusted import read_bytes, read_text
from forklift.usecases.guest_stay import HOME, Stay, Stayed, stay
from forklift.usecases.kit import Kit, Watch
from forklift.usecases.live_run import LiveRun

TRANSCRIPT = "transcript.jsonl"
_DOOR = "http://127.0.0.1:4000/v1"
_TRANSCRIPT_LIMIT = 16 << 20
_TRANSCRIPT_TAIL = 2 << 20
_TRANSCRIPT_LINES = 10_000
_PREVIEW = 2000
_WHOLE_STUCK = 64 << 10


@dataclass(frozen=True, slots=True)
class AgentPlan:
    brief: Brief
    choice: ModelChoice
    agent: str
    setup: tuple[str, ...]
    limit: timedelta
    budget: Budget
    fork_context: str
    known_stuck: str | None
    """The text of a STUCK.md that the fork's own tree holds: that one is not the agent's."""


@dataclass(frozen=True, slots=True)
class AgentDone:
    """The agent ended by itself and claims to be done."""

    said: Said
    usage: Usage


async def run_agent(
    kit: Kit, run: LiveRun, image: str, plan: AgentPlan, watch: Watch
) -> AgentDone | TimedOut | Stuck | AgentFailed:
    prompt = instructions(plan.brief)
    _leave_for_guest(run.harness_state / "instructions.txt", prompt)
    _leave_for_guest(run.harness_state / "fork-context.md", plan.fork_context)
    token = Secret(f"forklift-run-{secrets.token_hex(24)}")
    kit.redact.learn(token)
    asked = _ModelTrouble(run.record)
    ended = await stay(kit, _stay(kit, run, image, plan, prompt, token, asked.record, watch))
    log = kit.redact(harmless(ended.log.decode(errors="replace")))
    replace_atomically(run.path / "container.log", log)
    run.note_usage(ended.usage)
    return _judged(kit, run, plan, ended, asked.unanswered)


class _ModelTrouble:
    """Notes requests to the model that its server left unanswered, on their way to the journal."""

    def __init__(self, record: Callable[[Event], None]) -> None:
        self._record = record
        self.unanswered = 0
        """How many in a row, up to now."""

    def record(self, event: Event) -> None:
        if event.action == "model.request":
            status = event.facts.get("status")
            failed = isinstance(status, int) and status >= 500
            self.unanswered = self.unanswered + 1 if failed else 0
        self._record(event)


def _judged(
    kit: Kit, run: LiveRun, plan: AgentPlan, ended: Stayed, unanswered: int
) -> AgentDone | TimedOut | Stuck | AgentFailed:
    """timeout > stuck > agent: the order is a promise (docs/reference/exit-codes.md)."""
    if ended.timed_out:
        seconds = plan.limit.total_seconds()
        why = (
            f"; the last {unanswered} requests to the model at {plan.choice.provider.base_url}"
            " failed: is it up, and is the key good?"
            if unanswered
            else ""
        )
        return TimedOut(f"the agent was stopped at the limit of {seconds:g} s{why}")
    if (preview := stuck_preview(run.workspace, plan.known_stuck)) is not None:
        return Stuck(f"the agent is stuck; its questions: {run.workspace / 'STUCK.md'}", preview)
    said = _said(kit, run)
    if ended.trouble is not None:
        return AgentFailed(f"the agent was ended: {one_line(ended.trouble)}")
    if ended.code != 0:
        why = said.error or _last_line(ended.log)
        return AgentFailed(
            f"the agent failed (exit {ended.code}): {kit.redact(one_line(why))};"
            f" see: forklift logs {run.id}"
        )
    return AgentDone(said, ended.usage)


def stuck_preview(workspace: Path, known: str | None) -> str | None:
    """The beginning of the agent's STUCK.md, harmless; None where it wrote none."""
    try:
        text = read_text(workspace / "STUCK.md", _WHOLE_STUCK, root=workspace)
    except UnsafeOutput as unsafe:
        return f"(STUCK.md cannot be shown: {unsafe.message})"
    if text is None or text == known:
        return None
    return text[:_PREVIEW]


def _said(kit: Kit, run: LiveRun) -> Said:
    try:
        # Its end alone: who fills the transcript must not keep the host busy for minutes.
        raw = read_bytes(
            run.harness_state / TRANSCRIPT, _TRANSCRIPT_TAIL, root=run.harness_state, tail=True
        )
    except UnsafeOutput:
        return Said(error="its transcript is not a regular file")
    lines = (raw or b"").rsplit(b"\n", _TRANSCRIPT_LINES)
    said = kit.agent.read(line.decode(errors="replace") for line in lines)
    return Said(
        kit.redact(harmless(said.last_words)),
        one_line(said.session) if said.session else None,
        said.tools_used,
        kit.redact(one_line(said.error)) if said.error else None,
    )


def _stay(
    kit: Kit, run: LiveRun, image: str, plan: AgentPlan, prompt: str, token: Secret,
    record: Callable[[Event], None], watch: Watch,
) -> Stay:  # fmt: skip
    choice = plan.choice
    launch = kit.agent.launch(
        Order(
            prompt=prompt,
            provider=choice.provider.name,
            model=choice.model,
            variant=choice.variant,
            agent=plan.agent,
            wire=choice.provider.wire,
            door=_DOOR,
            token=token.reveal(),
        )
    )
    environment = {
        "HOME": HOME,
        "PWD": "/workspace",
        "OPENCODE_API_KEY": token.reveal(),
        "OPENCODE_MODEL": f"{choice.provider.name}/{choice.model}",
        "OPENCODE_VARIANT": choice.variant,
        "OPENCODE_AGENT": plan.agent,
    }
    limit = plan.limit.total_seconds()
    return Stay(
        run_id=run.id,
        purpose="agent",
        image=image,
        workspace=run.workspace,
        harness_state=run.harness_state,
        record=record,
        limit=plan.limit,
        tick=lambda used, left: watch.step(_progress(used, left)),
        environment=environment,
        model=ModelPolicy(
            choice, token, plan.budget, extra_ca=str(kit.extra_ca) if kit.extra_ca else None
        ),
        job=Job(
            argv=launch.argv,
            environment={**environment, **launch.environment},
            files=launch.files,
            stdin=launch.stdin,
            setup=plan.setup,
            cwd="/workspace",
            transcript=TRANSCRIPT,
            transcript_cap=_TRANSCRIPT_LIMIT,
            # The guest's own deadline lies inside ours, so that its grace does too.
            seconds=limit - min(5.0, limit / 10),
            egress=True,
            model=True,
        ),
    )


def _progress(used: Usage, left: float) -> str:
    tokens = used.input_tokens + used.output_tokens
    cost = "" if used.usd is None else f", ${used.usd:.2f}"
    return f"  {used.requests} requests to the model, {tokens} tokens{cost}; {left:.0f} s left"


def _leave_for_guest(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o644)


def _last_line(log: bytes) -> str:
    lines = [line for line in log.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"
