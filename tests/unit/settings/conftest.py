from collections.abc import Callable
from pathlib import Path

import pytest

KEY = "sk-very-secret-0123456789"


@pytest.fixture
def key() -> str:
    return KEY


@pytest.fixture
def env_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes an `opencode.env`: a whole one, with keys changed, or exactly these lines."""

    def write(text: str | bytes | None = None, *, mode: int = 0o600, **changed: str | None) -> Path:
        values = {"API_KEY": KEY, "MODEL": "anthropic/claude", "VARIANT": "high", "AGENT": "build"}
        lines = [f"OPENCODE_{k}={v}" for k, v in {**values, **changed}.items() if v is not None]
        contents = text if text is not None else "\n".join(lines) + "\n"
        path = tmp_path / "opencode.env"
        path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
        path.chmod(mode)
        return path

    return write
