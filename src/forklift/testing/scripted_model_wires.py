"""The three wire formats, as far as coding agents speak them: reading a request, saying a turn."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from forklift.sidecar.json_value import Json, Object, as_list, as_object, as_text

_SHELLS = ("bash", "shell", "exec_command", "shell_command", "local_shell", "run_shell_command")
_PIECE = 1 << 16
_LETTERS = 12

Words: TypeAlias = Iterable[str]


@dataclass(frozen=True, slots=True)
class Call:
    """A shell tool's call, as the request's own declaration wants it."""

    name: str
    arguments: Object
    kind: str = "function"


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says in one turn."""

    number: int
    model: str
    words: Words = ()
    call: Call | None = None

    @property
    def name(self) -> str:
        return f"scripted-{self.number + 1}"

    @property
    def input_tokens(self) -> int:
        return 1000 + 100 * self.number

    @property
    def cached_tokens(self) -> int:
        return 100 * self.number

    @property
    def output_tokens(self) -> int:
        return 50


def pieces(text: str) -> Iterator[str]:
    """As a model streams: a few letters at a time."""
    for at in range(0, len(text), _LETTERS):
        yield text[at : at + _LETTERS]


def flood(size: int) -> Iterator[str]:
    for at in range(0, size, _PIECE):
        yield "flood " * (min(_PIECE, size - at) // 6 + 1)


def shell_call(request: Object, command: str) -> Call | None:
    """The request's shell tool with this command in it, or None when it declares none."""
    tools = {_tool_name(tool): tool for tool in map(as_object, as_list(request.get("tools")))}
    by_name = {name.lower(): name for name in tools}
    for shell in _SHELLS:
        if shell in by_name:
            name = by_name[shell]
            return _call(name, tools[name], command)
    return None


def _tool_name(tool: Object) -> str:
    function = as_object(tool.get("function"))
    return as_text(tool.get("name")) or as_text(function.get("name")) or as_text(tool.get("type"))


def _call(name: str, tool: Object, command: str) -> Call:
    if tool.get("type") == "local_shell":
        action: Object = {"type": "exec", "command": ["bash", "-lc", command], "env": {}}
        return Call(name, action, "local_shell")
    function = as_object(tool.get("function")) or tool
    schema = as_object(function.get("parameters")) or as_object(function.get("input_schema"))
    properties = as_object(schema.get("properties"))
    arguments: Object = {}
    for wanted in as_list(schema.get("required")):
        if isinstance(wanted, str) and as_object(properties.get(wanted)).get("type") == "string":
            arguments[wanted] = "A scripted command"
    slot = "cmd" if "cmd" in properties else "command"
    listed = as_object(properties.get(slot)).get("type") == "array"
    arguments[slot] = ["bash", "-lc", command] if listed else command
    return Call(name, arguments)


def _text(value: Object) -> str:
    return json.dumps(value)


# --- OpenAI chat completions


def chat_taken(request: Object) -> int:
    messages = map(as_object, as_list(request.get("messages")))
    return sum(message.get("role") == "assistant" for message in messages)


def chat_whole(reply: Reply) -> Object:
    message: Object = {"role": "assistant", "content": "".join(reply.words) or None}
    if reply.call:
        message["tool_calls"] = [_chat_call(reply, reply.call)]
    finish = "tool_calls" if reply.call else "stop"
    choice: Object = {"index": 0, "message": message, "finish_reason": finish}
    shown = _chat_frame(reply, "chat.completion", [choice])
    return {**shown, "usage": _chat_usage(reply)}


def chat_stream(reply: Reply, request: Object) -> Iterator[bytes]:
    def delta(content: Object, finish: Json = None) -> bytes:
        choice: Object = {"index": 0, "delta": content, "finish_reason": finish}
        return _data(_chat_frame(reply, "chat.completion.chunk", [choice]))

    yield delta({"role": "assistant", "content": ""})
    for piece in reply.words:
        yield delta({"content": piece})
    if reply.call:
        yield delta({"tool_calls": [{"index": 0, **_chat_call(reply, reply.call)}]})
    yield delta({}, "tool_calls" if reply.call else "stop")
    if as_object(request.get("stream_options")).get("include_usage"):
        last = _chat_frame(reply, "chat.completion.chunk", [])
        yield _data({**last, "usage": _chat_usage(reply)})
    yield b"data: [DONE]\n\n"


def _chat_frame(reply: Reply, kind: str, choices: list[Json]) -> Object:
    return {
        "id": f"chatcmpl-{reply.name}",
        "object": kind,
        "created": 1_700_000_000,
        "model": reply.model,
        "choices": choices,
    }


def _chat_call(reply: Reply, call: Call) -> Object:
    function: Object = {"name": call.name, "arguments": _text(call.arguments)}
    return {"id": f"call_{reply.name}", "type": "function", "function": function}


def _chat_usage(reply: Reply) -> Object:
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": reply.cached_tokens},
    }


# --- OpenAI responses


def responses_taken(request: Object) -> int:
    items = [as_object(item) for item in as_list(request.get("input"))]
    return sum(
        as_text(item.get("type")).endswith("_call")
        or item.get("type") == "item_reference"
        or item.get("role") == "assistant"
        for item in items
    )


def responses_whole(reply: Reply) -> Object:
    return _response(reply, "completed", [_item(reply, "".join(reply.words))])


def responses_stream(reply: Reply) -> Iterator[bytes]:
    said: list[str] = []
    number = 0

    def event(kind: str, **facts: Json) -> bytes:
        nonlocal number
        number += 1
        return _event({"type": kind, "sequence_number": number, **facts})

    yield event("response.created", response=_response(reply, "in_progress", []))
    yield event("response.output_item.added", output_index=0, item=_item(reply, None))
    at: dict[str, Json] = {"item_id": _item_id(reply), "output_index": 0}
    if reply.call is None:
        at["content_index"] = 0
        yield event("response.content_part.added", **at, part=_part(""))
        for piece in reply.words:
            said.append(piece)
            yield event("response.output_text.delta", **at, delta=piece, logprobs=[])
        text = "".join(said)
        yield event("response.output_text.done", **at, text=text, logprobs=[])
        yield event("response.content_part.done", **at, part=_part(text))
    elif reply.call.kind == "function":
        text = _text(reply.call.arguments)
        yield event("response.function_call_arguments.delta", **at, delta=text)
        yield event("response.function_call_arguments.done", **at, arguments=text)
    item = _item(reply, "".join(said))
    yield event("response.output_item.done", output_index=0, item=item)
    yield event("response.completed", response=_response(reply, "completed", [item]))


def _item_id(reply: Reply) -> str:
    return f"{'fc' if reply.call else 'msg'}_{reply.name}"


def _item(reply: Reply, text: str | None) -> Object:
    """The output item; `text` None is its announcement."""
    status = "in_progress" if text is None else "completed"
    shown: Object = {"id": _item_id(reply), "status": status}
    if reply.call is None:
        content: list[Json] = [] if text is None else [_part(text)]
        return {**shown, "type": "message", "role": "assistant", "content": content}
    shown["call_id"] = f"call_{reply.name}"
    if reply.call.kind == "local_shell":
        return {**shown, "type": "local_shell_call", "action": reply.call.arguments}
    arguments = "" if text is None else _text(reply.call.arguments)
    return {**shown, "type": "function_call", "name": reply.call.name, "arguments": arguments}


def _part(text: str) -> Object:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _response(reply: Reply, status: str, output: list[Json]) -> Object:
    shown: Object = {
        "id": f"resp_{reply.name}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "model": reply.model,
        "output": output,
        "error": None,
        "incomplete_details": None,
        "usage": None,
    }
    if status == "completed":
        shown["usage"] = {
            "input_tokens": reply.input_tokens,
            "input_tokens_details": {"cached_tokens": reply.cached_tokens},
            "output_tokens": reply.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": reply.input_tokens + reply.output_tokens,
        }
    return shown


# --- Anthropic messages


def messages_taken(request: Object) -> int:
    taken = 0
    for message in map(as_object, as_list(request.get("messages"))):
        if message.get("role") == "assistant":
            blocks = map(as_object, as_list(message.get("content")))
            # Turns in a row may come back merged into one message.
            taken += max(1, sum(block.get("type") == "tool_use" for block in blocks))
    return taken


def messages_whole(reply: Reply) -> Object:
    block = _block(reply)
    if reply.call is None:
        block["text"] = "".join(reply.words)
    else:
        block["input"] = reply.call.arguments
    stop = "tool_use" if reply.call else "end_turn"
    return {**_message(reply), "content": [block], "stop_reason": stop}


def messages_stream(reply: Reply) -> Iterator[bytes]:
    yield _event({"type": "message_start", "message": _message(reply)})
    yield _event({"type": "content_block_start", "index": 0, "content_block": _block(reply)})

    def delta(told: Object) -> bytes:
        return _event({"type": "content_block_delta", "index": 0, "delta": told})

    for piece in reply.words:
        yield delta({"type": "text_delta", "text": piece})
    if reply.call:
        yield delta({"type": "input_json_delta", "partial_json": _text(reply.call.arguments)})
    yield _event({"type": "content_block_stop", "index": 0})
    stop: Object = {"stop_reason": "tool_use" if reply.call else "end_turn", "stop_sequence": None}
    usage: Object = {"output_tokens": reply.output_tokens}
    yield _event({"type": "message_delta", "delta": stop, "usage": usage})
    yield _event({"type": "message_stop"})


def _message(reply: Reply) -> Object:
    return {
        "id": f"msg_{reply.name}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": reply.input_tokens - reply.cached_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": reply.cached_tokens,
            "output_tokens": reply.output_tokens,
        },
    }


def _block(reply: Reply) -> Object:
    if reply.call is None:
        return {"type": "text", "text": ""}
    return {"type": "tool_use", "id": f"toolu_{reply.name}", "name": reply.call.name, "input": {}}


def _event(told: Object) -> bytes:
    return f"event: {told['type']}\n".encode() + _data(told)


def _data(told: Object) -> bytes:
    return f"data: {json.dumps(told)}\n\n".encode()
