"""What the doors let through: the host's decision, handed to each sidecar as it starts."""

import enum
from dataclasses import dataclass, field

from forklift.core.model_access import Budget, ModelChoice
from forklift.core.secret import Secret


class EgressMode(enum.Enum):
    OPEN = "open"
    ALLOWLIST = "allowlist"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    mode: EgressMode = EgressMode.OPEN
    hosts: tuple[str, ...] = ()
    """For `allowlist`: exact names, or `*.example.org`."""
    ports: tuple[int, ...] = (80, 443)
    allow_private: tuple[str, ...] = ()
    """`ADDRESS:PORT` pairs that may be dialled although they are not public: a company's mirror."""


@dataclass(frozen=True, slots=True)
class ModelPolicy:
    choice: ModelChoice
    token: Secret
    """What the guest presents; anything else is turned away."""
    budget: Budget = field(default_factory=Budget)
    granted_tools: tuple[str, ...] = ()
    """Provider-side tools (web search, code execution, …) that are let through."""
    scrub: tuple[Secret, ...] = field(default=())
    """Further secrets that must never appear in a response."""
    extra_ca: str | None = None
    """A CA bundle for networks that inspect TLS."""
