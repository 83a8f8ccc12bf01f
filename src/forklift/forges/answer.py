"""What a forge answered, and what that means in words for a person. Pure: no request is made here.

Everything a server sends is hostile text: it is quoted on one line and never obeyed.
"""

import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import cast

from pydantic_core import from_json

from forklift.core.text import one_line

NO_ANSWER = 0
"""The status of a request that nobody answered in time."""

_DEEPEST = 4
_LONGEST_QUOTE = 160


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between the forges' APIs as far as HTTP goes."""

    forge: str
    scheme: str
    """The word before the token in the Authorization header."""
    page_size: str
    """The parameter's name."""
    scopes: str
    """What a token needs, in the words of the forge's own settings page."""
    renew: str
    """What to do with a new token."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Answer:
    method: str
    path: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names in lower case."""
    body: bytes = b""
    trouble: str = ""
    """Why there is no answer, or why it cannot be used."""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300 and not self.trouble

    @property
    def unsure(self) -> bool:
        """A write that was answered so may have happened all the same."""
        return bool(self.trouble) or self.status >= 500

    @property
    def said(self) -> str:
        """The server's own words, harmless, on one line."""
        return one_line(self.trouble or "; ".join(_words(self.body)), _LONGEST_QUOTE)


def in_words(answer: Answer, dialect: Dialect, repository: str, now: datetime) -> str:
    """What happened, to what, and what to do next."""
    forge, about = dialect.forge, _about(answer, repository)
    limit = limited_until(answer, now)
    if limit is not None:
        return f"{forge}'s rate limit is used up {_until(limit, now)}; run again then"
    if answer.status == NO_ANSWER or answer.trouble:
        return (
            f"{forge} gave no usable answer for {about}: {answer.said}; check the network, the "
            "proxy settings and the forge's API address, then run again"
        )
    if 300 <= answer.status < 400:
        return _moved(answer, forge, about)
    if answer.status == 401:
        return (
            f"{forge} refused the token for {about}: it is wrong, expired or revoked; make a new "
            f"one with {dialect.scopes} and {dialect.renew}"
        )
    if answer.status == 403:
        return _forbidden(answer, dialect, about)
    if answer.status == 404:
        what = ", or one of the branches is not there" if answer.method == "POST" else ""
        return (
            f"{forge} knows no {about}, or the token may not see it{what}; check the remote's URL, "
            f"and that the token has {dialect.scopes}"
        )
    if answer.status >= 500:
        return f"{forge} failed with {_status(answer)} for {about}; run again later"
    return f"{forge} refused {answer.method} for {about} with {_status(answer)}"


def limited_until(answer: Answer, now: datetime) -> datetime | timedelta | None:
    """When a rate limit ends; a zero timedelta when the server does not say; None without one."""
    spent = answer.headers.get("x-ratelimit-remaining", answer.headers.get("ratelimit-remaining"))
    exhausted = spent == "0" or "retry-after" in answer.headers
    hit = exhausted or "rate limit" in answer.said.lower()
    if answer.status != 429 and not (answer.status == 403 and hit):
        return None
    return retry_after(answer, now) or _reset(answer) or timedelta()


def retry_after(answer: Answer, now: datetime) -> datetime | None:
    """The moment named by Retry-After, which is a number of seconds or a date."""
    value = answer.headers.get("retry-after", "").strip()
    if value.isdecimal() and len(value) < 8:
        return now + timedelta(seconds=int(value))
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def web_address(text: str) -> str:
    """A page to show to people and to link to; nothing when it is of another kind."""
    return one_line(text, 500) if text.startswith(("https://", "http://")) else ""


def _reset(answer: Answer) -> datetime | None:
    for name in ("x-ratelimit-reset", "ratelimit-reset"):
        value = answer.headers.get(name, "")
        if value.isdecimal() and len(value) < 12:
            return datetime.fromtimestamp(int(value), UTC)
    return None


def _until(limit: datetime | timedelta, now: datetime) -> str:
    if isinstance(limit, timedelta):
        return "for a time that it does not say"
    minutes = max(1, round((limit - now) / timedelta(minutes=1)))
    return f"until {limit.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC (about {minutes} min)"


def _moved(answer: Answer, forge: str, about: str) -> str:
    where = _place(answer.headers.get("location", ""))
    return (
        f"{forge} redirects {about} to {where}, and the token is not sent there: was "
        "the repository moved or renamed, or is the API at another address? Set the new one with: "
        "git remote set-url origin URL"
    )


def _place(location: str) -> str:
    """Only host and path: the rest of an address could carry a password, or anything."""
    try:
        target = urllib.parse.urlsplit(location)
        port = f":{target.port}" if target.port else ""
    except ValueError:
        return "another address"
    host = f"{target.hostname}{port}" if target.hostname else ""
    return one_line(f"{host}{target.path}", _LONGEST_QUOTE) or "another address"


def _forbidden(answer: Answer, dialect: Dialect, about: str) -> str:
    if answer.headers.get("x-github-sso", "").startswith("required"):
        return (
            f"{dialect.forge} wants this token to be authorised for the organisation's single "
            f"sign-on before it may touch {about}; do that in the token's settings"
        )
    quote = f' ("{answer.said}")' if answer.said else ""
    return (
        f"{dialect.forge} does not let this token {answer.method} {about}{quote}; the token needs "
        f"{dialect.scopes}, and its user the right to write there"
    )


def _about(answer: Answer, repository: str) -> str:
    parts = answer.path.strip("/").split("/")
    for name in ("pulls", "merge_requests", "issues"):
        if name in parts[:-1] and parts[parts.index(name) + 1].isdecimal():
            return f"pull request {parts[parts.index(name) + 1]} of {repository}"
    return repository


def _status(answer: Answer) -> str:
    return f'{answer.status}: "{answer.said}"' if answer.said else str(answer.status)


def _words(body: bytes) -> list[str]:
    try:
        value: object = from_json(body[:100_000])
    except ValueError:
        return [body[:2_000].decode(errors="replace")] if body else []
    return list(dict.fromkeys(_strings(value, _DEEPEST)))


def _strings(value: object, depth: int) -> list[str]:
    if isinstance(value, str):
        return [value]
    if depth == 0:
        return []
    if isinstance(value, list):
        items = cast("list[object]", value)[:20]
        return [word for item in items for word in _strings(item, depth - 1)]
    if isinstance(value, dict):
        return _said_in(cast("dict[str, object]", value), depth)
    return []


def _said_in(value: dict[str, object], depth: int) -> list[str]:
    """The parts that the forges put their reasons in; a field's name before its complaints."""
    told = [
        word
        for key in ("message", "error_description", "error", "errors")
        for word in _strings(value.get(key), depth - 1)
    ]
    if told:
        return told
    if isinstance(value.get("code"), str):
        return [" ".join(str(value[key]) for key in ("field", "code") if key in value)]
    fields = ((key, _strings(item, depth - 1)) for key, item in value.items())
    return [
        f"{key}: {word}" for key, words in fields for word in words if key != "documentation_url"
    ]
