"""OpenAI's chat completions, as spoken by most providers."""

from collections.abc import Callable

from forklift.sidecar.clean import Cleaning, parts, plain
from forklift.sidecar.http1 import Refused
from forklift.sidecar.json_value import Json, Object, as_list, as_object, as_text

_FIELDS = frozenset(
    {"model", "messages", "tools", "tool_choice", "parallel_tool_calls", "functions"}
    | {"function_call", "stream", "temperature", "top_p", "top_k", "min_p", "n", "stop"}
    | {"max_tokens", "max_completion_tokens", "presence_penalty", "frequency_penalty"}
    | {"repetition_penalty", "logit_bias", "logprobs", "top_logprobs", "seed", "verbosity"}
    | {"response_format", "reasoning_effort", "reasoning", "include_reasoning", "thinking"}
    | {"reasoning_format", "enable_thinking", "thinking_budget", "chat_template_kwargs"}
    | {"prediction", "prompt_cache_key", "usage"}
)
_MESSAGE_FIELDS = frozenset(
    {"role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "prefix"}
    | {"reasoning", "reasoning_content", "reasoning_details", "reasoning_text", "reasoning_opaque"}
    | {"cache_control", "phase", "partial"}
)
_QUIET = frozenset(
    {"stream_options", "store", "user", "metadata", "safety_identifier", "service_tier"}
)
_CLIENT_TOOLS = {"function", "custom"}


def clean(body: Object, cleaning: Cleaning) -> Object:
    cleaned = cleaning.keep(body, _FIELDS, _QUIET)
    if not isinstance(cleaned.get("messages"), list):
        raise Refused(400, "a chat completion without messages")
    readers = _readers(cleaning)
    messages: list[Json] = []
    for given in as_list(cleaned["messages"]):
        message = cleaning.keep(as_object(given), _MESSAGE_FIELDS, _QUIET)
        parts(message.get("content"), readers, "a message part")
        messages.append(message)
    cleaned["messages"] = messages
    cleaning.tools(cleaned, lambda tool: tool.get("type") in _CLIENT_TOOLS)
    _drop_choice(cleaned)
    if cleaned.get("stream") is True:
        # Else the stream would not say what it cost.
        cleaned["stream_options"] = {"include_usage": True}
    return cleaned


def _readers(cleaning: Cleaning) -> dict[str, Callable[[Object], None]]:
    return {
        "text": plain,
        "refusal": plain,
        "thinking": plain,
        "reasoning": plain,
        "redacted_thinking": plain,
        "input_audio": lambda part: _audio(part, cleaning),
        "image_url": lambda part: _url(part, "image_url", cleaning),
        "video_url": lambda part: _url(part, "video_url", cleaning),
        "file": lambda part: _file(part, cleaning),
    }


def _audio(part: Object, cleaning: Cleaning) -> None:
    holder = part.get("input_audio")
    for held in (holder, as_object(holder).get("data"), as_object(holder).get("url")):
        cleaning.inline(held, "audio")


def _url(part: Object, name: str, cleaning: Cleaning) -> None:
    holder = part.get(name)
    url = as_object(holder).get("url") if isinstance(holder, dict) else holder
    if not as_text(url):
        raise Refused(400, f"an {name} without content")
    cleaning.inline(url, f"an {name}")


def _file(part: Object, cleaning: Cleaning) -> None:
    file = as_object(part.get("file"))
    cleaning.no_file(file)
    for name in ("file_data", "file_url", "url"):
        cleaning.inline(file.get(name), "a file")


def _drop_choice(cleaned: Object) -> None:
    """A choice of a tool that is not there any more would be an error of ours."""
    choice = as_object(cleaned.get("tool_choice"))
    if choice and choice.get("type") not in _CLIENT_TOOLS | {"allowed_tools"}:
        del cleaned["tool_choice"]
