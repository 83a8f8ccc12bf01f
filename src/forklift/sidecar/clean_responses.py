"""OpenAI's responses."""

from collections.abc import Callable

from forklift.sidecar.clean import Cleaning, parts, plain
from forklift.sidecar.http1 import Refused
from forklift.sidecar.json_value import Json, Object, as_list, as_object, as_text

_FIELDS = frozenset(
    {"model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "stream"}
    | {"temperature", "top_p", "max_output_tokens", "max_tool_calls", "reasoning", "text"}
    | {"truncation", "include", "prompt_cache_key", "top_logprobs", "context_management"}
)
_QUIET = frozenset(
    {"stream_options", "store", "background", "user", "metadata", "safety_identifier"}
    | {"service_tier", "client_metadata", "prompt_cache_retention"}
)
_STATE = ("previous_response_id", "conversation", "prompt")
_CLIENT_TOOLS = {"function", "custom", "local_shell", "apply_patch"}
_SHELLS = ("local_shell", "shell", "apply_patch")
_PLAIN_ITEMS = (
    {"function_call", "custom_tool_call", "reasoning", "compaction", "compaction_trigger"}
    | {"tool_search_call", "tool_search_output", "additional_tools"}
    | {f"{tool}_call{end}" for tool in _SHELLS for end in ("", "_output")}
)
_OUTPUTS = {"function_call_output", "custom_tool_call_output"}


def clean(body: Object, cleaning: Cleaning) -> Object:
    for name in _STATE:
        if body.get(name) is not None:
            raise Refused(400, f"{name}: what the provider keeps cannot be used; send it instead")
    if body.get("background") is True:
        raise Refused(400, "background: a request must end with its connection")
    cleaned = cleaning.keep(body, _FIELDS, _QUIET | set(_STATE))
    _look_at_input(cleaned.get("input"), cleaning)
    cleaning.tools(cleaned, _stays_inside(cleaning))
    choice = as_object(cleaned.get("tool_choice"))
    if choice and choice.get("type") not in _CLIENT_TOOLS | {"allowed_tools", "shell"}:
        del cleaned["tool_choice"]
    cleaned["store"] = False
    return cleaned


def _look_at_input(given: Json, cleaning: Cleaning) -> None:
    if isinstance(given, str):
        return
    if not isinstance(given, list):
        raise Refused(400, "a response without input")
    for item in given:
        _look_at_item(as_object(item), cleaning)


def _look_at_item(item: Object, cleaning: Cleaning) -> None:
    kind = as_text(item.get("type")) or "message"
    readers = _readers(cleaning)
    if kind == "message":
        parts(item.get("content"), readers, "an input part")
    elif kind in _OUTPUTS:
        parts(item.get("output"), readers, "a tool's output")
    elif kind == "item_reference":
        raise Refused(
            400, "item_reference: what the provider keeps cannot be used; set store false"
        )
    elif kind in _PLAIN_ITEMS:
        _look_at_nested_tools(item, cleaning)
    elif not cleaning.grants(kind.removesuffix("_call")):
        raise Refused(400, f"an input item of the type {kind[:60]!r}")


def _look_at_nested_tools(item: Object, cleaning: Cleaning) -> None:
    """Tools may also be declared in the middle of a conversation."""
    if isinstance(item.get("tools"), list):
        cleaning.tools(item, _stays_inside(cleaning))
        item.setdefault("tools", [])


def _readers(cleaning: Cleaning) -> dict[str, Callable[[Object], None]]:
    return {
        "input_text": plain,
        "output_text": plain,
        "summary_text": plain,
        "reasoning_text": plain,
        "text": plain,
        "refusal": plain,
        "input_audio": lambda part: _audio(part, cleaning),
        "encrypted_content": plain,
        "input_image": lambda part: _image(part, cleaning),
        "input_file": lambda part: _file(part, cleaning),
    }


def _audio(part: Object, cleaning: Cleaning) -> None:
    cleaning.inline(as_object(part.get("input_audio")).get("data"), "audio")


def _image(part: Object, cleaning: Cleaning) -> None:
    cleaning.no_file(part)
    cleaning.inline(part.get("image_url"), "an image")


def _file(part: Object, cleaning: Cleaning) -> None:
    cleaning.no_file(part)
    cleaning.inline(part.get("file_data"), "a file")
    cleaning.inline(part.get("file_url"), "a file")


def _stays_inside(cleaning: Cleaning) -> Callable[[Object], bool]:
    def stays(tool: Object) -> bool:
        kind = tool.get("type")
        if kind in _CLIENT_TOOLS:
            return True
        if kind == "shell":
            # The same word, two things: the provider's container, or a call for us to run.
            where = as_object(tool.get("environment")).get("type", "local")
            return where == "local"
        if kind == "tool_search":
            return tool.get("execution") == "client"
        if kind == "namespace":
            inner = as_list(tool.get("tools"))
            kept = [one for one in inner if stays(as_object(one))]
            cleaning.withheld.extend(
                "tool within a namespace" for _ in range(len(inner) - len(kept))
            )
            tool["tools"] = kept
            return bool(kept)
        return False

    return stays
