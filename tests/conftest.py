"""What holds for every test."""

import os
import re

import pytest
from hypothesis import settings

_PERSONAL = re.compile(
    r"_TOKEN$|_API_KEY$|_PROXY$|_proxy$|^FORKLIFT_(?!DOCKER$|IMAGE$)|^OPENCODE_|^XDG_|^GIT_|^SSH_"
)

# No deadline: how long an example takes is the machine's affair, not a promise to a user.
# No database: a run depends on nothing that an earlier one left in the checkout.
settings.register_profile("forklift", deadline=None, database=None)
settings.load_profile("forklift")


@pytest.fixture(autouse=True)
def wiped_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the credentials, proxies or Git configuration of whoever runs it."""
    for name in os.environ:
        if _PERSONAL.search(name):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_TERMINAL_PROMPT", "0")
