"""What is installed is whole: the wheel carries all that a run and the image's build need."""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_wheel_carries_the_whole_build_context_of_the_image(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    context = ROOT / "docker" / "kitchen-sink"
    for file in (file for file in context.rglob("*") if file.is_file()):
        assert f"forklift/kitchen_sink/{file.relative_to(context).as_posix()}" in names
    for needed in ("forklift/guest/init.py", "forklift/sandboxes/seccomp.json"):
        assert needed in names


def test_nothing_that_the_image_is_built_from_is_ignored_by_git() -> None:
    everything = [str(file) for file in (ROOT / "docker").rglob("*") if file.is_file()]
    ignored = subprocess.run(
        ["git", "-C", str(ROOT), "check-ignore", "--", *everything],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ignored.stdout == ""
