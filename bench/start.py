"""How long `forklift --version` takes, against a Python that does nothing."""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

_ROUNDS = 30


def run() -> dict[str, float]:
    command = Path(sys.executable).with_name("forklift")
    ratios: list[float] = []
    for _ in range(_ROUNDS):
        bare = _timed([sys.executable, "-c", "pass"])
        ratios.append(_timed([str(command), "--version"]) / bare)
    return {"start.version_over_bare_python": statistics.median(ratios)}


def _timed(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
