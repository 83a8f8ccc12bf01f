import base64
import urllib.parse

from hypothesis import assume, given
from hypothesis import strategies as st

from forklift.core.secret import MASK, Redactor, Secret

KEYS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=6, max_size=60)


def test_a_secret_does_not_print() -> None:
    secret = Secret("sk-very-secret")
    assert "very" not in f"{secret} {secret!r} {[secret]}"
    assert secret.reveal() == "sk-very-secret"
    assert not Secret("")


@given(KEYS, st.text(), st.text())
def test_no_plain_or_url_encoded_secret_survives(key: str, before: str, after: str) -> None:
    redact = Redactor([Secret(key)])
    assume(key not in MASK)
    for form in (key, urllib.parse.quote(key, safe=""), urllib.parse.quote_plus(key)):
        clean = redact(f"{before} {form} {after}")
        assert MASK in clean
        assert form not in clean.replace(MASK, "\0")


@given(KEYS, st.binary(max_size=20), st.binary(max_size=20))
def test_no_base64_of_a_text_around_the_secret_can_be_decoded_to_it(
    key: str, before: bytes, after: bytes
) -> None:
    redact = Redactor([Secret(key)])
    raw = before + key.encode() + after
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        clean = redact(encode(raw).decode())
        assert MASK in clean


def test_a_secret_within_another_leaves_nothing_of_the_longer_one() -> None:
    redact = Redactor([Secret("secret"), Secret("secret-and-more")])
    assert redact("x secret-and-more y secret z") == f"x {MASK} y {MASK} z"


def test_short_values_are_left_alone_because_they_would_blank_out_ordinary_words() -> None:
    assert Redactor([Secret("main")])("the main branch") == "the main branch"
    assert Redactor([Secret("")])("text") == "text"


def test_learns_further_secrets_later() -> None:
    redact = Redactor()
    assert redact("tok-123456") == "tok-123456"
    redact.learn(Secret("tok-123456"))
    assert redact("tok-123456") == MASK
