"""Anthropic's messages."""

from collections.abc import Callable, Mapping

from forklift.sidecar.clean import FILES, URLS, Cleaning, parts, plain
from forklift.sidecar.http1 import Refused
from forklift.sidecar.json_value import Object, as_list, as_object, as_text

_FIELDS = frozenset(
    {"model", "messages", "system", "tools", "tool_choice", "max_tokens", "stream"}
    | {"temperature", "top_p", "top_k", "stop_sequences", "thinking", "output_config"}
    | {"output_format", "context_management", "cache_control"}
)
_QUIET = frozenset({"metadata", "service_tier"})
# These are named by the provider and run by the client.
_CLIENT_TOOLS = ("bash_", "text_editor_", "memory_", "computer_")
_BETAS = (
    "claude-code-",
    "compact-",
    "context-1m-",
    "context-management-",
    "effort-",
    "extended-cache-ttl-",
    "fine-grained-tool-streaming-",
    "interleaved-thinking-",
    "output-128k-",
    "prompt-caching-",
    "redact-thinking-",
    "structured-outputs-",
    "token-efficient-tools-",
)


def clean(body: Object, cleaning: Cleaning) -> Object:
    cleaned = cleaning.keep(body, _FIELDS, _QUIET)
    if not isinstance(cleaned.get("messages"), list):
        raise Refused(400, "a message without messages")
    readers = _readers(cleaning)
    parts(cleaned.get("system"), readers, "a system block")
    for message in as_list(cleaned["messages"]):
        parts(as_object(message).get("content"), readers, "a content block")
    cleaning.tools(cleaned, _stays_inside)
    return cleaned


def betas(value: str) -> str:
    """Those of the header's values that switch on nothing that reaches out."""
    named = (name.strip() for name in value.split(","))
    return ",".join(name for name in named if name.startswith(_BETAS))


def _readers(cleaning: Cleaning) -> Mapping[str, Callable[[Object], None]]:
    readers: dict[str, Callable[[Object], None]] = {
        "text": plain,
        "thinking": plain,
        "redacted_thinking": plain,
        "tool_use": plain,
        "tool_reference": plain,
        "compaction": plain,
    }

    def nested(part: Object) -> None:
        parts(part.get("content"), readers, "a content block")

    def sourced(part: Object) -> None:
        source = as_object(part.get("source"))
        match as_text(source.get("type")):
            case "base64" | "text":
                pass
            case "content":
                nested(source)
            case "url" if cleaning.grants(URLS):
                pass
            case "file" if cleaning.grants(FILES):
                pass
            case kind:
                raise Refused(
                    400,
                    f"content from a source of the type {kind[:60]!r}: the provider would fetch it;"
                    " send the content instead",
                )

    readers |= {
        "image": sourced,
        "document": sourced,
        "tool_result": nested,
        "search_result": nested,
    }
    if cleaning.granted:
        # What granted tools left in the conversation.
        done = ("web_search", "web_fetch", "code_execution", "bash_code_execution", "mcp")
        readers |= {f"{tool}_tool_result": plain for tool in done if cleaning.grants(tool)}
        readers |= {"server_tool_use": plain, "mcp_tool_use": plain}
    return readers


def _stays_inside(tool: Object) -> bool:
    kind = tool.get("type")
    return kind is None or kind == "custom" or as_text(kind).startswith(_CLIENT_TOOLS)
