"""Which model is asked, in which vendor's wire format, at which address."""

import enum
from dataclasses import dataclass

from forklift.core.secret import Secret


class Wire(enum.Enum):
    """A vendor's wire format: the paths that the model door lets through follow from it."""

    OPENAI_CHAT = "openai-chat"
    OPENAI_RESPONSES = "openai-responses"
    ANTHROPIC_MESSAGES = "anthropic-messages"


@dataclass(frozen=True, slots=True)
class Provider:
    name: str
    wire: Wire
    base_url: str
    """Where requests go; what the wire format appends (`/chat/completions`, …) follows it."""


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The model of a run. The key stays on the host: it is handed to the model door alone."""

    provider: Provider
    model: str
    """The provider's own name for it: `OPENCODE_MODEL` without the provider's prefix."""
    variant: str
    key: Secret


@dataclass(frozen=True, slots=True)
class Budget:
    """A run's hard stop. Zero means no limit of that kind."""

    usd: float = 0.0
    tokens: int = 0
    requests: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run has used so far, as metered by the model door."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float | None = None
    """None when no price is known for the model."""


KNOWN_PROVIDERS: dict[str, Provider] = {
    name: Provider(name, wire, url)
    for name, wire, url in (
        ("anthropic", Wire.ANTHROPIC_MESSAGES, "https://api.anthropic.com/v1"),
        ("openai", Wire.OPENAI_RESPONSES, "https://api.openai.com/v1"),
        ("openrouter", Wire.OPENAI_CHAT, "https://openrouter.ai/api/v1"),
        ("opencode", Wire.OPENAI_CHAT, "https://opencode.ai/zen/v1"),
        ("groq", Wire.OPENAI_CHAT, "https://api.groq.com/openai/v1"),
        ("mistral", Wire.OPENAI_CHAT, "https://api.mistral.ai/v1"),
        ("deepseek", Wire.OPENAI_CHAT, "https://api.deepseek.com/v1"),
        ("xai", Wire.OPENAI_CHAT, "https://api.x.ai/v1"),
        ("cerebras", Wire.OPENAI_CHAT, "https://api.cerebras.ai/v1"),
        ("togetherai", Wire.OPENAI_CHAT, "https://api.together.xyz/v1"),
        ("fireworks-ai", Wire.OPENAI_CHAT, "https://api.fireworks.ai/inference/v1"),
        ("moonshotai", Wire.OPENAI_CHAT, "https://api.moonshot.ai/v1"),
        ("google", Wire.OPENAI_CHAT, "https://generativelanguage.googleapis.com/v1beta/openai"),
    )
}
