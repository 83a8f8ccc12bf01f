from pathlib import Path

import pytest

from forklift.errors import SetupError
from forklift.settings import read_extra_ca

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def test_reads_a_bundle_of_certificates(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("# Company CA\n" + CERTIFICATE)
    assert CERTIFICATE in read_extra_ca(tmp_path / "ca.pem")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "does not exist"),
        ("", "holds no PEM certificate"),
        (CERTIFICATE + "-----BEGIN RSA PRIVATE KEY-----\n", "holds a private key"),
    ],
)
def test_refuses_what_an_agent_must_not_see_or_cannot_use(
    tmp_path: Path, text: str | None, words: str
) -> None:
    if text is not None:
        (tmp_path / "ca.pem").write_text(text)
    with pytest.raises(SetupError, match=words):
        read_extra_ca(tmp_path / "ca.pem")
