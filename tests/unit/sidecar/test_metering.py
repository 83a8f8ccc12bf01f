import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forklift.core.model_access import Wire
from forklift.sidecar.metering import Meter, Tokens

CHAT_USAGE = {
    "prompt_tokens": 70,
    "completion_tokens": 9,
    "prompt_tokens_details": {"cached_tokens": 30},
}
RESPONSES_USAGE = {
    "input_tokens": 70,
    "output_tokens": 9,
    "input_tokens_details": {"cached_tokens": 30},
}
MESSAGES_START = {
    "input_tokens": 35,
    "cache_read_input_tokens": 30,
    "cache_creation_input_tokens": 5,
    "output_tokens": 1,
}
WHOLE = {
    Wire.OPENAI_CHAT: {"usage": CHAT_USAGE},
    Wire.OPENAI_RESPONSES: {"usage": RESPONSES_USAGE},
    Wire.ANTHROPIC_MESSAGES: {"usage": {**MESSAGES_START, "output_tokens": 9}},
}
STREAMS: dict[Wire, list[object]] = {
    Wire.OPENAI_CHAT: [
        {"choices": [{"delta": {"content": '"usage": {"prompt_tokens": 1}'}}], "usage": None},
        {"choices": [], "usage": CHAT_USAGE},
    ],
    Wire.OPENAI_RESPONSES: [
        {"type": "response.created", "response": {"usage": None}},
        {"type": "response.completed", "response": {"usage": RESPONSES_USAGE}},
    ],
    Wire.ANTHROPIC_MESSAGES: [
        {"type": "message_start", "message": {"usage": MESSAGES_START}},
        {"type": "message_delta", "usage": {"output_tokens": 4}},
        {"type": "message_delta", "usage": {"output_tokens": 9}},
    ],
}


def expected(wire: Wire) -> Tokens:
    return Tokens(70, 9, 30, 5 if wire is Wire.ANTHROPIC_MESSAGES else 0)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("wire", list(Wire))
@given(size=st.integers(1, 80))
def test_usage_is_read_from_a_stream_wherever_it_is_cut(
    wire: Wire, newline: str, size: int
) -> None:
    events = [f"event: x{newline}data: {json.dumps(event)}{newline * 2}" for event in STREAMS[wire]]
    text = "".join([*events, f"data: [DONE]{newline * 2}"]).encode()
    meter = Meter(wire, streamed=True, request_bytes=1)
    for at in range(0, len(text), size):
        meter.feed(text[at : at + size])
    assert meter.tokens(complete=True) == expected(wire)


@pytest.mark.parametrize("wire", list(Wire))
def test_usage_is_read_from_a_whole_answer(wire: Wire) -> None:
    meter = Meter(wire, streamed=False, request_bytes=1)
    meter.feed(json.dumps(WHOLE[wire], indent=1).encode())
    assert meter.tokens(complete=True) == expected(wire)


def test_a_stream_without_usage_is_charged_by_its_words() -> None:
    meter = Meter(Wire.OPENAI_CHAT, streamed=True, request_bytes=3000)
    for _ in range(100):
        meter.feed(b'data: {"choices": [{"delta": {"content": "abcdef"}}]}\n\n')
    assert meter.tokens(complete=True) == Tokens(input=1000, output=200, estimated=True)


def test_a_line_that_breaks_off_is_charged_by_its_size() -> None:
    meter = Meter(Wire.OPENAI_CHAT, streamed=True, request_bytes=3)
    meter.feed(b'data: {"choices": [{"delta": {"content": "' + b"x" * 3000)
    assert meter.tokens(complete=True).output > 1000


def test_an_answer_that_cannot_be_read_is_charged_by_its_size() -> None:
    meter = Meter(Wire.OPENAI_CHAT, streamed=False, request_bytes=300)
    meter.feed(b"x" * 300)
    assert meter.tokens(complete=True) == Tokens(input=100, output=100, estimated=True)


def test_a_line_without_end_costs_no_memory() -> None:
    meter = Meter(Wire.OPENAI_CHAT, streamed=True, request_bytes=3)
    for _ in range(40):
        meter.feed(b"x" * (1 << 20))
    assert meter.tokens(complete=True).output >= 10 << 20


@pytest.mark.parametrize("usage", [-5, True, "7", None, [], {}, 1.5, 1e9])
def test_numbers_that_are_none_do_not_lower_the_bill(usage: object) -> None:
    meter = Meter(Wire.OPENAI_CHAT, streamed=False, request_bytes=3)
    meter.feed(json.dumps({"usage": {"prompt_tokens": usage, "completion_tokens": 4}}).encode())
    assert meter.tokens(complete=True) == Tokens(0, 4)


@pytest.mark.parametrize("wire", list(Wire))
def test_an_answer_that_is_broken_off_is_never_cheaper_than_a_whole_one(wire: Wire) -> None:
    meter = Meter(wire, streamed=True, request_bytes=300)
    meter.feed(f"data: {json.dumps(STREAMS[wire][0])}\n\n".encode())
    tokens = meter.tokens(complete=False)
    assert tokens.estimated
    assert tokens.output >= 4000
    assert tokens.input >= 70
