import base64
import json
import urllib.parse
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from forklift.core.secret import MASK, Secret
from forklift.sidecar.scrub import Scrubber

KEY = "sk-live-1234567890/abc+DEF=="
SPELLINGS = {
    "plain": KEY,
    "url": urllib.parse.quote(KEY, safe=""),
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64 within": base64.b64encode(f"key={KEY};".encode()).decode(),
    "hex": KEY.encode().hex(),
    "json": json.dumps(KEY).replace("/", "\\/"),
    "escapes": "".join(f"\\u{ord(char):04x}" for char in KEY),
}


def scrub(text: bytes, cuts: list[int], *secrets: str) -> bytes:
    scrubber = Scrubber(Secret(value) for value in (secrets or (KEY,)))
    edges = [0, *sorted({cut % (len(text) + 1) for cut in cuts}), len(text)]
    passed = [scrubber.feed(text[start:end]) for start, end in pairwise(edges)]
    return b"".join([*passed, scrubber.finish()])


@given(st.sampled_from(sorted(SPELLINGS)), st.lists(st.integers(0, 500), max_size=12))
def test_no_spelling_passes_wherever_the_stream_is_cut(name: str, cuts: list[int]) -> None:
    spelt = SPELLINGS[name]
    passed = scrub(f"before {spelt} after".encode(), cuts).decode()
    assert spelt not in passed
    assert MASK in passed
    assert passed.startswith("before ")
    assert passed.endswith(" after")


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=8))
def test_what_holds_no_secret_passes_unchanged(text: bytes, cuts: list[int]) -> None:
    assert scrub(text, cuts) == text


@given(st.lists(st.integers(0, 60), max_size=10))
def test_of_two_secrets_that_begin_alike_neither_leaves_a_rest(cuts: list[int]) -> None:
    passed = scrub(b"1 abcdefgh 2 abcdefghijkl 3", cuts, "abcdefgh", "abcdefghijkl")
    assert passed == b"1 [redacted] 2 [redacted] 3"


def test_what_cannot_become_a_secret_is_not_held_back() -> None:
    scrubber = Scrubber([Secret(KEY)])
    assert scrubber.feed(b'data: {"delta": "hello"}\n\n') == b'data: {"delta": "hello"}\n\n'


def test_an_event_streams_json_stays_json() -> None:
    passed = scrub(json.dumps({"text": f"it is {KEY}"}).encode(), [])
    assert json.loads(passed) == {"text": "it is [redacted]"}
