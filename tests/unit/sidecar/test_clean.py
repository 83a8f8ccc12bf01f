import json

import pytest

from forklift.core.model_access import ModelChoice, Provider, Wire
from forklift.core.secret import Secret
from forklift.sidecar import wire
from forklift.sidecar.http1 import Refused
from forklift.sidecar.json_value import Object, as_object, load
from forklift.sidecar.policy import ModelPolicy
from forklift.sidecar.wire import Asked

PATHS = {
    Wire.OPENAI_CHAT: "/chat/completions",
    Wire.OPENAI_RESPONSES: "/responses",
    Wire.ANTHROPIC_MESSAGES: "/messages",
}
SAYING: dict[Wire, Object] = {
    Wire.OPENAI_CHAT: {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
    Wire.OPENAI_RESPONSES: {"model": "m", "input": "hi"},
    Wire.ANTHROPIC_MESSAGES: {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}],
    },
}


def prepare(kind: Wire, body: object, *granted: str) -> Asked:
    choice = ModelChoice(Provider("p", kind, "http://h/v1"), "m", "", Secret("key-123456"))
    policy = ModelPolicy(choice, Secret("token-123456"), granted_tools=granted)
    return wire.prepare(policy, PATHS[kind], json.dumps(body).encode())


def cleaned(kind: Wire, more: object, *granted: str) -> tuple[Object, tuple[str, ...]]:
    asked = prepare(kind, SAYING[kind] | as_object(load(json.dumps(more))), *granted)
    return as_object(load(asked.body)), asked.withheld


def user(part: object) -> object:
    return [{"role": "user", "content": [part]}]


@pytest.mark.parametrize("kind", list(Wire))
@pytest.mark.parametrize("model", ["other", "m:online", "M", "", None, ["m"], 5])
def test_only_the_runs_own_model_may_be_asked(kind: Wire, model: object) -> None:
    with pytest.raises(Refused) as refused:
        prepare(kind, {**SAYING[kind], "model": model})
    assert refused.value.status == 403


@pytest.mark.parametrize("kind", list(Wire))
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"hi",
        b"[]",
        b"{",
        b'{"model": NaN}',
        b'{"model": "m", "n": Infinity}',
        b"\xff\xfe",
        b'{"a":' * 100_000,
        b"[" * 200_000,
        b'{"n": ' + b"9" * 10_000 + b"}",
    ],
)
def test_a_body_that_is_not_plain_json_is_refused(kind: Wire, body: bytes) -> None:
    choice = ModelChoice(Provider("p", kind, "http://h/v1"), "m", "", Secret("k"))
    with pytest.raises(Refused):
        wire.prepare(ModelPolicy(choice, Secret("t")), PATHS[kind], body)


def test_of_a_key_given_twice_the_provider_sees_what_was_checked() -> None:
    body = b'{"model":"expensive","messages":[],"model":"m"}'
    choice = ModelChoice(
        Provider("p", Wire.OPENAI_CHAT, "http://h/v1"), "m", "", Secret("key-123456")
    )
    asked = wire.prepare(ModelPolicy(choice, Secret("t")), "/chat/completions", body)
    assert asked.body == b'{"model":"m","messages":[]}'


def test_a_number_that_json_cannot_say_is_refused() -> None:
    choice = ModelChoice(Provider("p", Wire.OPENAI_CHAT, "http://h"), "m", "", Secret("k"))
    body = b'{"model":"m","messages":[],"temperature":1e999}'
    with pytest.raises(Refused):
        wire.prepare(ModelPolicy(choice, Secret("t")), "/chat/completions", body)


def test_half_a_surrogate_pair_in_a_prompt_passes_as_its_escape() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"\\ud83d"}]}'
    choice = ModelChoice(Provider("p", Wire.OPENAI_CHAT, "http://h"), "m", "", Secret("k"))
    asked = wire.prepare(ModelPolicy(choice, Secret("t")), "/chat/completions", body)
    assert b"\\ud83d" in asked.body


CHAT_TOOL: Object = {"type": "function", "function": {"name": "bash", "parameters": {}}}


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "web_search"},
        {"type": "web_search_preview"},
        {"type": "builtin_function", "function": {"name": "$web_search"}},
        {"type": "mcp", "server_url": "https://evil.example.org"},
        {"type": "openrouter:web_search"},
        {"type": "code_interpreter"},
        {"name": "no type"},
        "web_search",
    ],
)
def test_chat_keeps_functions_and_withholds_what_the_provider_runs(tool: object) -> None:
    body, withheld = cleaned(Wire.OPENAI_CHAT, {"tools": [tool, CHAT_TOOL]})
    assert body["tools"] == [CHAT_TOOL]
    assert len(withheld) == 1


def test_without_any_tool_left_no_choice_of_tools_is_sent() -> None:
    more = {"tools": [{"type": "web_search"}], "tool_choice": "required"}
    body, _ = cleaned(Wire.OPENAI_CHAT, more)
    assert "tools" not in body
    assert "tool_choice" not in body


@pytest.mark.parametrize(
    "field",
    [
        {"web_search_options": {"user_location": None}},
        {"plugins": [{"id": "web"}]},
        {"search_parameters": {"mode": "on"}},
        {"models": ["m", "expensive"]},
        {"extra_body": {"google": {}}},
        {"provider": {"order": ["x"]}},
        {"webhook": "https://evil.example.org"},
    ],
)
def test_chat_withholds_fields_that_reach_out(field: dict[str, object]) -> None:
    body, withheld = cleaned(Wire.OPENAI_CHAT, field)
    assert not set(field) & set(body)
    assert withheld == tuple(field)


def test_what_was_granted_passes() -> None:
    body, withheld = cleaned(Wire.OPENAI_CHAT, {"web_search_options": {"x": 1}}, "web_search")
    assert "web_search_options" in body
    assert not withheld
    search = {"type": "web_search_20250305", "name": "web_search"}
    body, withheld = cleaned(Wire.ANTHROPIC_MESSAGES, {"tools": [search]}, "web_search")
    assert body["tools"] == [search]


def test_a_streamed_chat_always_tells_its_usage() -> None:
    more = {"stream": True, "stream_options": {"include_usage": False}}
    body, _ = cleaned(Wire.OPENAI_CHAT, more)
    assert body["stream_options"] == {"include_usage": True}


INLINE = "data:image/png;base64,AAAA"
REMOTE = "https://evil.example.org/x.png?stolen"


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (Wire.OPENAI_CHAT, {"messages": user({"type": "image_url", "image_url": {"url": REMOTE}})}),
        (Wire.OPENAI_CHAT, {"messages": user({"type": "image_url", "image_url": REMOTE})}),
        (Wire.OPENAI_CHAT, {"messages": user({"type": "image_url", "image_url": {"u": REMOTE}})}),
        (Wire.OPENAI_CHAT, {"messages": user({"type": "video_url", "video_url": {"url": REMOTE}})}),
        (Wire.OPENAI_CHAT, {"messages": user({"type": "input_audio", "input_audio": REMOTE})}),
        (Wire.OPENAI_CHAT, {"messages": user({"type": "file", "file": {"file_data": REMOTE}})}),
        (Wire.OPENAI_CHAT, {"messages": user({"type": "file", "file": {"file_id": "f"}})}),
        (Wire.OPENAI_CHAT, {"messages": user({"type": "document_url", "document_url": REMOTE})}),
        (Wire.OPENAI_CHAT, {"messages": user({"image_url": REMOTE})}),
        (Wire.OPENAI_CHAT, {"messages": [{"role": "user", "content": {"url": REMOTE}}]}),
        (Wire.OPENAI_CHAT, {"messages": "hi"}),
        (Wire.OPENAI_CHAT, {"messages": user({"type": "image_url", "image_url": "FTP://x/y"})}),
        (Wire.OPENAI_CHAT, {"messages": user({"type": "image_url", "image_url": "gs://b/o"})}),
        (Wire.OPENAI_RESPONSES, {"input": user({"type": "input_image", "image_url": REMOTE})}),
        (Wire.OPENAI_RESPONSES, {"input": user({"type": "input_image", "file_id": "f"})}),
        (Wire.OPENAI_RESPONSES, {"input": user({"type": "input_file", "file_url": REMOTE})}),
        (Wire.OPENAI_RESPONSES, {"input": user({"type": "input_file", "file_data": REMOTE})}),
        (Wire.OPENAI_RESPONSES, {"input": user({"type": "input_file", "file_id": "f"})}),
        (Wire.OPENAI_RESPONSES, {"input": [{"type": "item_reference", "id": "x"}]}),
        (Wire.OPENAI_RESPONSES, {"input": [{"type": "mcp_call"}]}),
        (Wire.OPENAI_RESPONSES, {"input": [{"type": "computer_call_output"}]}),
        (Wire.OPENAI_RESPONSES, {"previous_response_id": "resp_1"}),
        (Wire.OPENAI_RESPONSES, {"conversation": "conv_1"}),
        (Wire.OPENAI_RESPONSES, {"prompt": {"id": "pmpt_1"}}),
        (Wire.OPENAI_RESPONSES, {"background": True}),
        (Wire.OPENAI_RESPONSES, {"input": {"type": "input_image", "image_url": REMOTE}}),
        (
            Wire.OPENAI_RESPONSES,
            {
                "input": [
                    {
                        "type": "function_call_output",
                        "call_id": "c",
                        "output": [{"type": "input_image", "image_url": REMOTE}],
                    }
                ]
            },
        ),
        (
            Wire.ANTHROPIC_MESSAGES,
            {"messages": user({"type": "image", "source": {"type": "url", "url": REMOTE}})},
        ),
        (
            Wire.ANTHROPIC_MESSAGES,
            {"messages": user({"type": "document", "source": {"type": "file", "file_id": "f"}})},
        ),
        (
            Wire.ANTHROPIC_MESSAGES,
            {
                "messages": user(
                    {
                        "type": "tool_result",
                        "content": [{"type": "image", "source": {"type": "url", "url": REMOTE}}],
                    }
                )
            },
        ),
        (
            Wire.ANTHROPIC_MESSAGES,
            {
                "messages": user(
                    {
                        "type": "document",
                        "source": {
                            "type": "content",
                            "content": [
                                {"type": "image", "source": {"type": "url", "url": REMOTE}}
                            ],
                        },
                    }
                )
            },
        ),
        (Wire.ANTHROPIC_MESSAGES, {"messages": user({"type": "container_upload"})}),
        (Wire.ANTHROPIC_MESSAGES, {"messages": user({"type": "server_tool_use"})}),
        (
            Wire.ANTHROPIC_MESSAGES,
            {"system": [{"type": "image", "source": {"type": "url", "url": REMOTE}}]},
        ),
    ],
)
def test_content_that_the_provider_would_fetch_or_keep_is_refused(kind: Wire, more: object) -> None:
    with pytest.raises(Refused) as refused:
        cleaned(kind, more)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (Wire.OPENAI_CHAT, {"messages": user({"type": "image_url", "image_url": {"url": INLINE}})}),
        (Wire.OPENAI_CHAT, {"messages": user({"type": "file", "file": {"file_data": "QUJD"}})}),
        (Wire.OPENAI_RESPONSES, {"input": user({"type": "input_image", "image_url": INLINE})}),
        (
            Wire.OPENAI_RESPONSES,
            {"input": [{"type": "function_call", "arguments": '{"url": "https://x"}'}]},
        ),
        (
            Wire.ANTHROPIC_MESSAGES,
            {"messages": user({"type": "image", "source": {"type": "base64", "data": "QUJD"}})},
        ),
        (
            Wire.ANTHROPIC_MESSAGES,
            {"messages": user({"type": "tool_use", "input": {"type": "image", "url": REMOTE}})},
        ),
    ],
)
def test_content_that_is_in_the_request_passes_unchanged(
    kind: Wire, more: dict[str, object]
) -> None:
    body, withheld = cleaned(kind, more)
    name = next(iter(more))
    assert body[name] == more[name]
    assert not withheld


def test_responses_keep_what_the_client_runs_and_withhold_the_rest() -> None:
    kept: list[object] = [
        {"type": "function", "name": "f"},
        {"type": "custom", "name": "c"},
        {"type": "local_shell"},
        {"type": "apply_patch"},
        {"type": "shell"},
        {"type": "tool_search", "execution": "client"},
    ]
    left_out = [
        {"type": name}
        for name in (
            *("web_search", "web_search_preview_2025_03_11", "file_search", "code_interpreter"),
            *("computer_use_preview", "image_generation", "mcp", "tool_search", "new_tool"),
        )
    ]
    hosted = {"type": "shell", "environment": {"type": "container_auto"}}
    body, withheld = cleaned(Wire.OPENAI_RESPONSES, {"tools": [*left_out, *kept, hosted]})
    assert body["tools"] == kept
    assert len(withheld) == len(left_out) + 1


def test_a_namespace_keeps_only_what_the_client_runs() -> None:
    inner = {"type": "function", "name": "f"}
    space = {"type": "namespace", "name": "n", "tools": [{"type": "mcp"}, inner]}
    body, withheld = cleaned(Wire.OPENAI_RESPONSES, {"tools": [space]})
    assert body["tools"] == [{**space, "tools": [inner]}]
    assert withheld


def test_tools_declared_within_a_conversation_are_looked_at_too() -> None:
    item = {"type": "additional_tools", "tools": [{"type": "mcp"}]}
    body, withheld = cleaned(Wire.OPENAI_RESPONSES, {"input": [item]})
    assert body["input"] == [{"type": "additional_tools", "tools": []}]
    assert withheld == ("tool mcp",)


def test_responses_are_never_stored_by_the_provider() -> None:
    body, _ = cleaned(Wire.OPENAI_RESPONSES, {"store": True, "metadata": {"a": "b"}})
    assert body["store"] is False
    assert "metadata" not in body


def test_messages_keep_what_the_client_runs_and_withhold_the_rest() -> None:
    kept: list[object] = [
        {"name": "bash", "input_schema": {}},
        {"type": "custom", "name": "c"},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "text_editor_20250728", "name": "edit"},
    ]
    left_out = [
        {"type": name, "name": "x"}
        for name in (
            *("web_search_20250305", "web_fetch_20250910", "code_execution_20250825"),
            *("mcp_toolset", "tool_search_tool_bm25_20251119", "new_tool"),
        )
    ]
    more = {"tools": [*kept, *left_out], "mcp_servers": [{"url": REMOTE}], "container": "c"}
    body, withheld = cleaned(Wire.ANTHROPIC_MESSAGES, more)
    assert body["tools"] == kept
    assert "mcp_servers" not in body
    assert "container" not in body
    assert len(withheld) == len(left_out) + 2


def test_every_request_is_written_anew_with_known_fields_only() -> None:
    for kind in Wire:
        body, _ = cleaned(kind, {"x-unknown": {"a": 1}, "metadata": {"user_id": "u"}})
        assert set(body) - {"store"} == set(SAYING[kind])
