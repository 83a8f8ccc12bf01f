"""The only loader by name: adapters come in through entry points, ours as anybody's."""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Literal, overload

from forklift.agents.port import CodingAgent
from forklift.core.suggest import did_you_mean
from forklift.core.text import one_line
from forklift.errors import SetupError
from forklift.forges.port import PullRequests
from forklift.sandboxes.port import Sandboxes

Agents = Literal["forklift.agents"]
SandboxBackends = Literal["forklift.sandboxes"]
Forges = Literal["forklift.forges"]
Group = Agents | SandboxBackends | Forges

GROUPS: tuple[Group, ...] = ("forklift.agents", "forklift.sandboxes", "forklift.forges")
_REINSTALL = "reinstall it (in a checkout: pip install --editable .)"


@overload
def load(group: Agents, name: str) -> Callable[..., CodingAgent]: ...
@overload
def load(group: SandboxBackends, name: str) -> Callable[..., Sandboxes]: ...
@overload
def load(group: Forges, name: str) -> Callable[..., PullRequests]: ...
def load(group: Group, name: str) -> Callable[..., object]:
    """The adapter's class. Raises `SetupError` when there is none of that name, or it is broken."""
    found = _registered(group)
    if name not in found:
        kind, options = group.removeprefix("forklift."), sorted(found)
        hint = did_you_mean(name, options)
        shown = one_line(name, 60)
        raise SetupError(f"'{shown}' is not among the {kind}: {', '.join(options)}{hint}")
    return _loaded(found[name])


def names(group: Group) -> list[str]:
    """What can be loaded, in order."""
    return sorted(_registered(group))


def _registered(group: Group) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        other = found.setdefault(entry.name, entry)
        # The same line seen twice is one installation seen twice; two lines are a quarrel, and
        # which of them wins must not hang on the order of sys.path.
        if other.value != entry.value:
            raise SetupError(
                f"two packages bring the plugin '{entry.name}' of {group} "
                f"({_origin(other)} and {_origin(entry)}); uninstall one"
            )
    if not found:
        # An entry point added to pyproject.toml is unseen until the package is installed again.
        raise SetupError(f"the installed forklift registers no {group}; {_REINSTALL}")
    return found


def _loaded(entry: EntryPoint) -> Callable[..., object]:
    try:
        loaded: object = entry.load()
    except (ImportError, AttributeError) as error:
        raise SetupError(
            f"the plugin '{entry.name}' ({_origin(entry)}) cannot be loaded: "
            f"{one_line(str(error))}; {_REINSTALL}"
        ) from error
    if not callable(loaded):
        raise SetupError(f"the plugin '{entry.name}' ({_origin(entry)}) is no class")
    return loaded


def _origin(entry: EntryPoint) -> str:
    return f"{entry.dist.name if entry.dist else 'unknown package'}: {entry.value}"
