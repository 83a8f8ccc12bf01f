"""What a scripted model does, turn by turn.

Which turn is next is read from the conversation in each request, not from a counter: so retries,
parallel sessions and a resumed session all get the answer that belongs to their place.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from forklift.errors import SetupError
from forklift.sidecar.json_value import Json, as_object, load

CLOSING = "The scripted model has nothing more to say."
TITLE = "Scripted session"


@dataclass(frozen=True, slots=True)
class Say:
    """Words, which end the agent's turn."""

    text: str


@dataclass(frozen=True, slots=True)
class Run:
    """A shell command, through whichever shell tool the request declares."""

    command: str


@dataclass(frozen=True, slots=True)
class Fail:
    """An error from the server. Takes no turn: `times` 0 fails for ever, else it passes after."""

    status: int
    body: str = '{"error": {"message": "the scripted model was told to fail"}}'
    times: int = 0


@dataclass(frozen=True, slots=True)
class Hang:
    """Silence for so long, each time; then the next turn. Takes no turn itself."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Flood:
    """Words without end: so many bytes of them."""

    size: int


@dataclass(frozen=True, slots=True)
class Raw:
    """Exactly these bytes as the body of an answer, whatever they are. Takes no turn."""

    body: str
    content_type: str = "text/event-stream"
    status: int = 200


Turn: TypeAlias = Say | Run | Fail | Hang | Flood | Raw
Answer: TypeAlias = Say | Run | Fail | Flood | Raw


@dataclass(frozen=True, slots=True)
class Step:
    """What comes next in a conversation: perhaps silence, then an answer."""

    number: int
    silence: float
    answer: Answer


def next_step(script: Sequence[Turn], taken: int, failures: dict[int, int]) -> Step:
    """After so many turns of the model. `failures` counts how often each `Fail` was given."""
    silence, left = 0.0, taken
    for place, turn in enumerate(script):
        match turn:
            case Say() | Run() | Flood() if left:
                left -= 1
            case Say() | Run() | Flood():
                return Step(taken, silence, turn)
            case Hang(seconds) if not left:
                silence += seconds
            case Fail(times=times) if not left and (not times or failures.get(place, 0) < times):
                failures[place] = failures.get(place, 0) + 1
                return Step(taken, silence, turn)
            case Raw() if not left:
                return Step(taken, silence, turn)
            case _:
                pass
    return Step(taken, silence, Say(CLOSING))


def read_script(text: str) -> list[Turn]:
    """From JSON: `[{"run": "make test"}, {"say": "done"}]`."""
    try:
        told = load(text)
    except ValueError as error:
        raise SetupError(f"the script is not JSON: {error}") from error
    if not isinstance(told, list):
        raise SetupError('the script is not a list; write [{"say": "done"}]')
    return [_turn(number, item) for number, item in enumerate(told, 1)]


def _turn(number: int, item: Json) -> Turn:
    match as_object(item):
        case {"say": str(text)}:
            return Say(text)
        case {"run": str(command)}:
            return Run(command)
        case {"hang": int() | float() as seconds}:
            return Hang(float(seconds))
        case {"flood": int(size)}:
            return Flood(size)
        case {"fail": int(status), **rest}:
            times = rest.get("times")
            return Fail(status, times=times if isinstance(times, int) else 0)
        case {"raw": str(body)}:
            return Raw(body)
        case _:
            raise SetupError(
                f"turn {number} of the script is {json.dumps(item)[:80]}; it must be one of"
                " say, run, fail, hang, flood, raw"
            )
