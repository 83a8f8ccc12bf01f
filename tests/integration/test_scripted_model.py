import json
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from forklift.errors import SetupError
from forklift.testing.scripted_model import Fail, Flood, Hang, Raw, Run, Say, ScriptedModel, Turn
from forklift.testing.scripted_model_script import CLOSING, read_script

SHELL: dict[str, object] = {"type": "function", "function": {"name": "bash"}}


def ask(
    server: ScriptedModel, *history: dict[str, object], tools: list[object] | None = None
) -> httpx2.Response:
    offered = [SHELL] if tools is None else tools
    body = {"model": "m", "messages": list(history), "tools": offered}
    return post(server, "/chat/completions", body)


def post(server: ScriptedModel, path: str, body: object) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {server.key}"}
    return httpx2.post(server.base_url + path, json=body, headers=headers, timeout=20)


def said(answer: httpx2.Response) -> str:
    return str(answer.json()["choices"][0]["message"]["content"])


ASSISTANT: dict[str, object] = {"role": "assistant", "content": "…"}


def test_which_turn_is_next_is_read_from_the_conversation() -> None:
    with ScriptedModel([Say("one"), Say("two")]) as server:
        assert said(ask(server)) == "one"
        assert said(ask(server)) == "one", "a retry gets the same answer"
        assert said(ask(server, ASSISTANT)) == "two"
        assert said(ask(server, ASSISTANT, ASSISTANT)) == CLOSING
        assert said(ask(server, ASSISTANT)) == "two", "as does another session"


def test_a_question_without_tools_gets_a_title_and_takes_no_turn() -> None:
    with ScriptedModel([Say("one")]) as server:
        assert said(ask(server, tools=[])) == "Scripted session"
        assert said(ask(server)) == "one"


def test_it_says_in_its_name_that_it_is_scripted() -> None:
    with ScriptedModel([Say("one")]) as server:
        answer = ask(server)
    assert answer.headers["server"].startswith("ScriptedModel")
    assert answer.json()["model"] == "scripted:m"
    assert "scripted" in CLOSING


TEXT: dict[str, object] = {"type": "string"}


@pytest.mark.parametrize(
    ("name", "properties", "arguments"),
    [
        ("bash", {"command": TEXT, "why": TEXT}, {"command": "ls", "why": "A scripted command"}),
        ("Bash", {"command": TEXT}, {"command": "ls"}),
        ("exec_command", {"cmd": TEXT}, {"cmd": "ls"}),
        ("shell", {"command": {"type": "array"}}, {"command": ["bash", "-lc", "ls"]}),
        ("shell_command", {"command": TEXT}, {"command": "ls"}),
    ],
)
def test_a_command_goes_through_whichever_shell_the_agent_declares(
    name: str, properties: dict[str, object], arguments: dict[str, object]
) -> None:
    schema = {"properties": properties, "required": list(properties)}
    tool = {"type": "function", "function": {"name": name, "parameters": schema}}
    with ScriptedModel([Run("ls")]) as server:
        other = {"type": "function", "function": {"name": "read"}}
        answer = ask(server, tools=[other, tool])
    call = answer.json()["choices"][0]["message"]["tool_calls"][0]["function"]
    assert call["name"] == name
    assert json.loads(call["arguments"]) == arguments


def test_an_agent_without_a_shell_is_told_so() -> None:
    with ScriptedModel([Run("ls")]) as server:
        answer = ask(server, tools=[{"type": "function", "function": {"name": "read"}}])
    assert answer.status_code == 400


def test_failures_pass_after_as_many_times_as_the_script_says() -> None:
    with ScriptedModel([Fail(503, times=2), Say("at last")]) as server:
        assert [ask(server).status_code for _ in range(3)] == [503, 503, 200]


def test_a_raw_answer_is_given_as_it_is() -> None:
    with ScriptedModel([Raw("data: {broken")]) as server:
        assert ask(server).text == "data: {broken"


def test_silence_ends_with_the_server() -> None:
    with ScriptedModel([Hang(0.01), Say("after a while")]) as server:
        assert said(ask(server)) == "after a while"


def test_another_key_is_turned_away() -> None:
    with ScriptedModel([Say("one")], key="right") as server:
        url = server.base_url + "/chat/completions"
        answer = httpx2.post(url, json={}, headers={"Authorization": "Bearer wrong"})
        assert answer.status_code == 401
        assert server.requests[0].path == "/v1/chat/completions"


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/chat/completions", {"messages": []}, "content"),
        ("/responses", {"input": "hi"}, "delta"),
        ("/messages", {"messages": []}, "text"),
    ],
)
def test_a_flood_streams_as_many_bytes_as_the_script_says(
    path: str, body: dict[str, object], words: str
) -> None:
    with ScriptedModel([Flood(200_000)], title=None) as server:
        answer = post(server, path, {"model": "m", "stream": True, **body})
    assert answer.headers["content-type"] == "text/event-stream"
    assert f'"{words}": "flood flood' in answer.text
    assert len(answer.content) >= 200_000


def test_a_script_is_read_from_json() -> None:
    text = '[{"run":"ls"},{"say":"x"},{"fail":500,"times":2},{"hang":1},{"flood":9},{"raw":"r"}]'
    turns: list[Turn] = [Run("ls"), Say("x"), Fail(500, times=2), Hang(1.0), Flood(9), Raw("r")]
    assert read_script(text) == turns


@pytest.mark.parametrize("text", ["", "{}", '[{"sing": "x"}]', '[{"run": 5}]', "[1]"])
def test_a_script_that_cannot_be_followed_is_a_plain_error(text: str) -> None:
    with pytest.raises(SetupError):
        read_script(text)


def test_the_command_prints_its_address_and_answers(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('[{"say": "from a file"}]')
    command = [sys.executable, "-m", "forklift.testing.scripted_model", "--script", str(script)]
    with subprocess.Popen([*command, "--key", "k"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        body = {"model": "m", "messages": [], "tools": [SHELL]}
        answer = httpx2.post(f"{url}/chat/completions", json=body, headers={"x-api-key": "k"})
        process.terminate()
    assert said(answer) == "from a file"
