import os
import pwd
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forklift.core.model_access import KNOWN_PROVIDERS, Wire
from forklift.core.secret import Secret
from forklift.errors import SetupError
from forklift.settings import OpenCodeEnv, model_choice, override, read_opencode_env

EnvFile = Callable[..., Path]
ENV = OpenCodeEnv(Secret("sk-x"), "anthropic/claude", "high", "build")


def complaint(path: Path, *hidden: str) -> str:
    with pytest.raises(SetupError) as caught:
        read_opencode_env(path)
    message = caught.value.message
    assert len(message.splitlines()) == 1
    whole = "".join(traceback.format_exception(caught.value))
    for value in hidden:
        assert value not in message
        assert value not in whole
    return message


def test_reads_the_four_keys(env_file: EnvFile, key: str) -> None:
    env = read_opencode_env(env_file())
    assert env.key.reveal() == key
    assert (env.model, env.variant, env.agent) == ("anthropic/claude", "high", "build")
    assert env.base_url is None
    assert key not in repr(env)


def test_reads_comments_blank_lines_export_quotes_and_windows_line_ends(env_file: EnvFile) -> None:
    env = read_opencode_env(
        env_file(
            "\ufeff# the model\r\n"
            "\r\n"
            "export OPENCODE_API_KEY='sk-a#b$c'   # kept here\r\n"
            '  OPENCODE_MODEL="openrouter/deepseek/r1:free"\r\n'
            "OPENCODE_VARIANT=high # a comment\r\n"
            "OPENCODE_AGENT=build\t\r\n"
            "OPENCODE_BASE_URL=\r\n"
        )
    )
    assert env.key.reveal() == "sk-a#b$c"
    assert env.model == "openrouter/deepseek/r1:free"
    assert (env.variant, env.agent, env.base_url) == ("high", "build", None)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("sk-a#b", "sk-a#b"),
        ("'sk-a\"b\\n'", 'sk-a"b\\n'),
        (r'"sk-a\"b\\c\$d"', 'sk-a"b\\c$d'),
        (r'"sk-a\nb"', r"sk-a\nb"),
        ("$HOME", "$HOME"),
    ],
)
def test_reads_a_value_as_a_shell_would_but_expands_nothing(
    env_file: EnvFile, written: str, value: str
) -> None:
    assert read_opencode_env(env_file(API_KEY=written)).key.reveal() == value


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("OPENCODE_API_KEY = sk-hidden", "line 1: write KEY=value without spaces"),
        ("OPENCODE_API_KEY= sk-hidden", "line 1: write KEY=value without spaces"),
        ("OPENCODE_API_KEY='sk-hidden", "line 1: OPENCODE_API_KEY: the quote is not closed"),
        ('OPENCODE_API_KEY="sk-hidden\\"', "line 1: OPENCODE_API_KEY: the quote is not closed"),
        ("OPENCODE_API_KEY='sk-hidden'x", "line 1: OPENCODE_API_KEY: something follows"),
        ("OPENCODE_API_KEY=sk-hidden x", "line 1: OPENCODE_API_KEY: a space or quote inside"),
        ("OPENCODE_API_KEY='sk-hidden\x1b'", "line 1: OPENCODE_API_KEY holds a character"),
        ("OPENCODE_API_KEY=sk-hiddené", "line 1: OPENCODE_API_KEY holds a character"),
        ("OPENCODE_API_KEY=", "line 1: OPENCODE_API_KEY is empty"),
        ("OPENCODE_API_KEY=''", "line 1: OPENCODE_API_KEY is empty"),
        ("sk-hidden", "line 1: not a KEY=value line"),
        ("c2staGlkZGVu==", "line 1: unknown key (known: OPENCODE_API_KEY"),
        ("opencode_api_key=sk-hidden", "did you mean 'OPENCODE_API_KEY'?"),
        ("OPENCODE_MODLE=sk-hidden", "unknown key OPENCODE_MODLE; did you mean 'OPENCODE_MODEL'?"),
        ("PATH=sk-hidden", "unknown key PATH"),
    ],
)
def test_names_file_line_and_key_and_never_the_value(
    env_file: EnvFile, line: str, words: str
) -> None:
    rest = "\nOPENCODE_MODEL=a/b\nOPENCODE_VARIANT=v\nOPENCODE_AGENT=a\n"
    if not line.startswith("OPENCODE_API_KEY"):
        rest = "\nOPENCODE_API_KEY=sk-other" + rest
    path = env_file(line + rest)
    message = complaint(path, "hidden", "c2staGlkZGVu")
    assert words in message
    assert str(path) in message


def test_names_both_lines_of_a_key_that_is_given_twice(env_file: EnvFile) -> None:
    message = complaint(env_file("OPENCODE_AGENT=a\n\nOPENCODE_AGENT=b\n"))
    assert "line 3: OPENCODE_AGENT is already given on line 1" in message


@pytest.mark.parametrize("missing", ["API_KEY", "MODEL", "VARIANT", "AGENT"])
def test_names_a_missing_key_and_shows_the_line_to_add(env_file: EnvFile, missing: str) -> None:
    changed: dict[str, str | None] = {missing: None}
    message = complaint(env_file(**changed))
    assert f"missing after line 3: OPENCODE_{missing}=" in message


@pytest.mark.parametrize("bad", ["a/$(id)", "a/b;c", "-a/b", "a/b c", "claude", "/x", "a/", "a/é"])
def test_refuses_a_model_that_is_no_provider_and_name(env_file: EnvFile, bad: str) -> None:
    assert "line 2: OPENCODE_MODEL" in complaint(env_file(MODEL=f"'{bad}'"))


@pytest.mark.parametrize("key", ["VARIANT", "AGENT"])
@pytest.mark.parametrize("bad", ["$(id)", "-x", "a:b", "a;b", "../é"])
def test_refuses_words_that_a_shell_could_read_otherwise(
    env_file: EnvFile, key: str, bad: str
) -> None:
    assert f"OPENCODE_{key} may hold letters" in complaint(env_file(**{key: f"'{bad}'"}))


def test_a_missing_file_is_told_with_where_and_how_to_make_it(tmp_path: Path) -> None:
    message = complaint(tmp_path / "opencode.env")
    for words in (str(tmp_path / "opencode.env"), "0600", "OPENCODE_API_KEY=", "OPENCODE_MODEL="):
        assert words in message


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o660])
def test_refuses_a_file_that_others_can_touch_with_the_chmod_to_run(
    env_file: EnvFile, key: str, mode: int
) -> None:
    path = env_file(mode=mode)
    message = complaint(path, key)
    assert f"(mode {mode:04o}); run: chmod 600 {path}" in message


def test_checks_what_a_link_leads_to(env_file: EnvFile, tmp_path: Path) -> None:
    link = tmp_path / "a link.env"
    link.symlink_to(env_file(mode=0o644))
    assert f"chmod 600 '{link}'" in complaint(link)
    env_file(mode=0o600)
    assert read_opencode_env(link).agent == "build"


def test_refuses_somebody_elses_file_with_the_chown_to_run(env_file: EnvFile) -> None:
    path = env_file()
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    else:
        path = Path("/etc/hostname")  # root's
    message = complaint(path)
    me = pwd.getpwuid(os.geteuid()).pw_name
    assert f"run: sudo chown {me} {path} && chmod 600 {path}" in message


def test_refuses_a_directory_a_pipe_and_a_device_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        assert "is not a regular file" in complaint(path)


def test_refuses_a_file_that_is_huge_or_not_text(env_file: EnvFile) -> None:
    assert "larger than 1 MiB" in complaint(env_file(b"#" * (2 << 20)))
    binary = env_file(b"OPENCODE_AGENT=a\nOPENCODE_API_KEY=sk-hidden\xff\n")
    assert "line 2: not UTF-8 text" in complaint(binary, "hidden")
    assert "not UTF-8" in complaint(env_file("OPENCODE_AGENT=a".encode("utf-16")))


def test_says_what_is_wrong_with_an_impossible_path(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    assert "cannot be read" in complaint(tmp_path / "loop")
    assert "cannot be read: Not a directory" in complaint(tmp_path / "file" / "opencode.env")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(text=st.text(st.sampled_from("OPENCODE_API_KEY=sk'\"\\ #\n\r\texport$é\x00"), max_size=60))
def test_no_file_at_all_causes_more_than_one_plain_line(env_file: EnvFile, text: str) -> None:
    complaint(env_file(text))


# ---- overrides


def test_overrides_what_the_command_line_gives_and_nothing_else() -> None:
    assert override(ENV) == ENV
    changed = override(ENV, model="openai/gpt-5.1", variant="low", agent="plan")
    assert (changed.model, changed.variant, changed.agent) == ("openai/gpt-5.1", "low", "plan")
    assert changed.key is ENV.key


def test_a_model_without_a_provider_keeps_the_files_provider() -> None:
    assert override(ENV, model="claude-35-sonnet").model == "anthropic/claude-35-sonnet"


@pytest.mark.parametrize("bad", ["", "-x", "a b", "a;b", "$(id)", "a:b", "a\n", "é", "a" * 300])
@pytest.mark.parametrize("option", ["model", "variant", "agent"])
def test_refuses_every_other_character_in_an_override(option: str, bad: str) -> None:
    with pytest.raises(SetupError, match=f"--{option} may hold letters"):
        override(ENV, **{option: bad})


# ---- the model


def env(model: str, base_url: str | None = None) -> OpenCodeEnv:
    return OpenCodeEnv(Secret("sk-x"), model, "high", "build", base_url)


def test_the_prefix_is_the_provider_and_the_rest_is_its_own_name_for_the_model() -> None:
    choice = model_choice(env("openrouter/deepseek/r1"))
    assert choice.provider == KNOWN_PROVIDERS["openrouter"]
    assert choice.model == "deepseek/r1"
    assert choice.variant == "high"
    assert choice.key.reveal() == "sk-x"


@pytest.mark.parametrize(
    ("model", "base_url", "wire"),
    [
        ("openai/gpt", None, Wire.OPENAI_RESPONSES),
        ("openai/gpt", "https://api.openai.com/v1", Wire.OPENAI_RESPONSES),
        ("openai/gpt", "http://localhost:8000/v1", Wire.OPENAI_CHAT),
        ("anthropic/claude", "https://proxy.example/v1/", Wire.ANTHROPIC_MESSAGES),
        ("mine/llama", "http://10.0.0.5:8000/v1", Wire.OPENAI_CHAT),
    ],
)
def test_a_compatible_server_is_spoken_to_in_the_wire_format_it_knows(
    model: str, base_url: str | None, wire: Wire
) -> None:
    choice = model_choice(env(model, base_url))
    assert choice.provider.wire is wire
    if base_url:
        assert choice.provider.base_url == base_url.rstrip("/")


def test_an_unknown_provider_without_an_address_is_an_error_with_two_ways_out() -> None:
    with pytest.raises(SetupError) as caught:
        model_choice(env("antropic/claude"))
    assert "did you mean 'anthropic'?" in caught.value.message
    assert "OPENCODE_BASE_URL" in caught.value.message


@pytest.mark.parametrize("model", ["claude", "/claude", "anthropic/"])
def test_a_model_without_both_parts_is_an_error(model: str) -> None:
    with pytest.raises(SetupError, match="names no provider"):
        model_choice(env(model))


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/v1", "host/v1", "//host/v1", "https://", "https:///v1", "https://me:pw@host/v1",
        "https://host/v1?key=pw", "https://host/v1#pw", "https://host:0/v1", "https://host:x/v1",
        "https://host:99999/v1", "https://ho st/v1", "https://[::1/v1", "https://host\\@evil/v1",
        "file:///etc/passwd", "https://hö.st/v1",
    ],
)  # fmt: skip
def test_refuses_an_address_that_is_no_plain_server_and_does_not_show_it(
    env_file: EnvFile, url: str
) -> None:
    assert "line 5: OPENCODE_BASE_URL" in complaint(env_file(BASE_URL=f"'{url}'"), "pw")
    with pytest.raises(SetupError, match="OPENCODE_BASE_URL") as caught:
        model_choice(env("mine/llama", url))
    assert url not in caught.value.message


@pytest.mark.parametrize("url", ["http://[::1]:8000/v1", "https://Host.example", "http://h:1/"])
def test_accepts_addresses_with_ports_and_ip_literals(env_file: EnvFile, url: str) -> None:
    assert read_opencode_env(env_file(BASE_URL=url)).base_url == url
