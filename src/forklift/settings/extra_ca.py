"""A CA bundle for networks that inspect TLS."""

from pathlib import Path

from forklift.errors import SetupError
from forklift.settings.own_file import read_own_file


def read_extra_ca(path: Path) -> str:
    """The bundle's text. Raises `SetupError` when it is not there or holds no certificate."""
    text = read_own_file(path, private=False)
    if text is None:
        raise SetupError(f"the CA bundle {path} does not exist; correct FORKLIFT_EXTRA_CA")
    if "PRIVATE KEY-----" in text:
        # It is mounted where an agent can read it.
        raise SetupError(f"{path} holds a private key; give a file with the certificates alone")
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise SetupError(f"{path} holds no PEM certificate; give the bundle as PEM text")
    return text
