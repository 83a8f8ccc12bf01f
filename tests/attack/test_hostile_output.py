"""An agent that attacks with what it says and commits: floods, bombs, escapes, forged commits."""

import json
import re
import resource
import subprocess
import time
from dataclasses import dataclass

import pytest

from forklift.testing.repositories import Fork
from tests.support.desk import RESOLVE, Desk, DeskFor
from tests.support.processes import peak_memory

pytestmark = pytest.mark.docker

STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What must never reach a terminal from an agent."""
ENOUGH = 200 << 20


@dataclass(frozen=True, slots=True)
class Watched:
    code: int
    out: str
    err: str
    peak: int

    @property
    def word(self) -> str:
        return self.out.partition(":")[0]


def run_watched(desk: Desk, agent: str) -> Watched:
    """Run to the end, and see how much memory the host's process took at most."""
    process = desk.start(agent=agent)
    # Git's too, should it ever be let loose on a bomb: the machine must survive its tests.
    resource.prlimit(process.pid, resource.RLIMIT_DATA, (2 << 30, 2 << 30))
    peak = 0
    while process.poll() is None:
        peak = max(peak, peak_memory(process.pid) or 0)
        time.sleep(0.02)
    out, err = process.communicate()
    assert "Traceback" not in err, err
    return Watched(process.returncode, out, err, peak)


def shown(desk: Desk) -> dict[str, str]:
    """Everything that a person may ask to see of the last run."""
    commands = (["logs"], ["show"], ["status"], ["show", "--json"], ["status", "--json"])
    return {" ".join(command): desk.run(*command).out for command in commands}


FLOODS = {
    "letters": "head -c 1G /dev/zero | tr '\\0' x",
    "wide characters": "yes 😀 | tr -d '\\n' | head -c 300M",
    "lines": "yes | head -c 300M",
    "errors": "head -c 300M /dev/zero >&2",
}


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_on_standard_output_costs_the_host_no_memory_and_little_disk(
    conflicting: Desk, kind: str
) -> None:
    done = run_watched(conflicting, RESOLVE + FLOODS[kind])
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    assert done.peak < ENOUGH
    on_disk = sum(f.stat().st_size for f in conflicting.last.rglob("*") if f.is_file())
    assert on_disk < 100 << 20


TALK = r"""
say() { printf '\033]0;owned\007\033[2J\033[8m\302\233\061m\342\200\256evil\r\b\000 %s\n' "$1"; }
say stdout; say stderr >&2
printf '{"type":"text","part":{"text":"\\u001b[2J\\u009b1m\\u202e @ada fixes #1 ![x](y)"}}\n'
"""


def test_escapes_in_what_it_prints_never_reach_a_terminal_raw(conflicting: Desk) -> None:
    done = conflicting.run(agent=RESOLVE + TALK)
    assert done.word == "merged", done.err
    for where, text in {"run": done.out + done.err, **shown(conflicting)}.items():
        assert not STEERING.search(text), where
    told = json.dumps((conflicting.last / "pull-request.md").read_text())
    assert "@ada" not in told
    assert "fixes #1" not in told
    assert "u001b" not in told


def test_escapes_in_how_it_fails_never_reach_a_terminal_raw(conflicting: Desk) -> None:
    events = (
        r"""printf '{"type":"error","error":{"data":{"message":"\\u001b[2J\\u202e gone"}}}\n'"""
    )
    done = conflicting.run(agent=f"{TALK}\n{events}; exit 9")
    assert done.word == "agent"
    assert "gone" in done.out
    for where, text in {"run": done.out + done.err, **shown(conflicting)}.items():
        assert not STEERING.search(text), where


def test_escapes_in_a_stuck_file_and_in_json_never_reach_a_terminal_raw(conflicting: Desk) -> None:
    done = conflicting.run("--json", agent=f"({TALK}) > STUCK.md")
    assert done.code == 4, done.err
    for where, text in {"run": done.out + done.err, **shown(conflicting)}.items():
        assert not STEERING.search(text), where


NAMES = r"""
deep=$(python3 -c 'print("/".join(["d"] * 1500))')
python3 - <<'PY'
import os
os.makedirs("big")
for name in [b"new\nline", b"\x1b[2J\x07bell", b"caf\xe9", "\u202egnp.exe".encode(), b"-rf",
             b"`tick`", b"--upload-pack=x", b"<!-- @ada -->", b"a" * 255]:
    open(b"big/" + name, "wb").write(b"x")
os.symlink("/etc/passwd", "big/link")
os.symlink("../../../../../../..", "big/up")
with open("big/binary.bin", "wb") as file:
    file.write(os.urandom(5 << 20))
here = os.getcwd()
for _ in range(3000):
    os.mkdir("d"); os.chdir("d")
os.chdir(here)
PY
mkdir -p .github/workflows && echo 'on: push' > .github/workflows/evil.yml
git add big .github && git commit -qm 'More'
mkdir many && python3 -c 'for n in range(100_000): open(f"many/{n}", "w").close()'
"""


def test_odd_names_deep_directories_and_a_hundred_thousand_files_are_taken_calmly(
    conflicting: Desk,
) -> None:
    done = run_watched(conflicting, RESOLVE + NAMES)
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    assert done.peak < ENOUGH
    body = (conflicting.last / "pull-request.md").read_text()
    assert not STEERING.search(body)
    assert "- `.github/workflows/evil.yml`: changed by the agent alone" in body
    assert "\\x1b[2J\\x07bell" in body
    cleaned = conflicting.run("clean", "--older-than", "0s")
    assert cleaned.code == 0, cleaned.err
    assert conflicting.runs() == []


FORGED = r"""
export GIT_AUTHOR_NAME='Linus <evil> ' GIT_AUTHOR_EMAIL='boss@example.org'
export GIT_COMMITTER_NAME='The Owner' GIT_COMMITTER_EMAIL='owner@example.org'
export GIT_AUTHOR_DATE='4000000000 +1400' GIT_COMMITTER_DATE='4000000000 -1200'
printf 'x\n' > y && git add y
python3 - > ../harness-state/message <<'PY'
print("\x1b[2J\x07\u202e@ada @org/team fixes #1, closes owner/repo#2\n")
print("Signed-off-by: Somebody <else@example.org>\nCo-authored-by: <x>\n")
print("long line " * 1_000_000)
PY
git commit -q -F ../harness-state/message
"""


def test_forged_commits_are_pushed_as_they_are_and_none_of_their_words_are_ours(
    conflicting: Desk,
) -> None:
    done = conflicting.run(agent=RESOLVE + FORGED)
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    for text in (done.out, (conflicting.last / "pull-request.md").read_text()):
        assert not STEERING.search(text)
        assert "@ada" not in text
        assert "fixes #1" not in text


def tree(*rows: str) -> str:
    """Commit a tree of these rows as a child of the merge, past the index and its checks."""
    lines = "; ".join(f"printf '{row}\\n'" for row in rows)
    return f"""
        blob=$(printf 'x\\n' | git hash-object -w --stdin)
        sub=$(printf "100644 blob $blob\\tconfig\\n" | git mktree)
        tree=$( (git ls-tree HEAD; {lines.replace("'", '"')}) | git mktree --missing)
        git update-ref refs/heads/main $(git commit-tree $tree -p HEAD -m odd)
    """


def modules(text: str) -> str:
    return (
        f"printf '{text}' > .gitmodules; git add -f .gitmodules; git commit -qm modules --no-verify"
    )


REFUSED = {
    "a .git directory": tree("040000 tree $sub\\t.git"),
    "a .GIT directory": tree("040000 tree $sub\\t.GIT"),
    "a .git that only HFS sees": tree("040000 tree $sub\\t.g\\342\\200\\214it"),
    "a .git that only NTFS sees": tree("040000 tree $sub\\tgit~1"),
    "a parent directory": tree("040000 tree $sub\\t.."),
    "a linked .gitmodules": tree("120000 blob $blob\\t.gitmodules"),
    "a submodule's url that is an option": modules(
        '[submodule "x"]\\n\\tpath = x\\n\\turl = -u./payload\\n'
    ),
    "a submodule's name that leads outside": modules(
        '[submodule "../../x"]\\n\\tpath = x\\n\\turl = ./x\\n'
    ),
    "a submodule's command": modules(
        '[submodule "x"]\\n\\tpath = x\\n\\turl = ./x\\n\\tupdate = !touch /tmp/x\\n'
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_tree_that_attacks_whoever_checks_it_out_is_refused(conflicting: Desk, case: str) -> None:
    done = conflicting.run(agent=RESOLVE + REFUSED[case])
    assert (done.code, done.word) == (3, "unverified"), done.out + done.err
    assert "bundle is refused" in done.out
    assert conflicting.pushed() == []


def test_a_submodule_by_a_dangerous_protocol_is_told_and_never_fetched(conflicting: Desk) -> None:
    text = '[submodule "x"]\\n\\tpath = x\\n\\turl = ext::sh -c touch% /tmp/forklift-canary\\n'
    script = (
        modules(text) + "; git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),x;"
        " git commit -qm sub"
    )
    done = conflicting.run(agent=RESOLVE + script)
    assert done.word == "merged", done.out + done.err
    body = (conflicting.last / "pull-request.md").read_text()
    assert "- `.gitmodules`: changed by the agent alone" in body
    assert "Submodules moved: x" in body


BOMBS = {
    "a tree of a million million files": """
        tree=$(printf "100644 blob $(echo x | git hash-object -w --stdin)\\tx\\n" | git mktree)
        for level in 1 2 3 4 5 6 7 8 9 10 11 12; do
            tree=$(for n in 0 1 2 3 4 5 6 7 8 9; do printf "040000 tree $tree\\t$n\\n"; done \\
                | git mktree)
        done
        git update-ref refs/heads/main $(git commit-tree $tree -p HEAD -m bomb)
    """,
    "a tree a hundred thousand levels deep": """
        python3 - <<'PY'
import hashlib, struct, subprocess, zlib
pack, count = bytearray(), 0
def put(kind, number, data):
    global count
    size = len(data)
    pack.append(number << 4 | size & 15 | (128 if size > 15 else 0))
    if size > 15:
        pack.append(size >> 4)
    pack.extend(zlib.compress(data, 0))
    count += 1
    return hashlib.sha1(b"%s %d\\0" % (kind, size) + data).digest()
top = put(b"tree", 2, b"100644 x\\0" + put(b"blob", 3, b"x"))
for _ in range(100_000):
    top = put(b"tree", 2, b"40000 d\\0" + top)
whole = b"PACK" + struct.pack(">II", 2, count) + pack
run = lambda *args, **more: subprocess.run(["git", *args], check=True, capture_output=True, **more)
run("index-pack", "--stdin", input=whole + hashlib.sha1(whole).digest())
head = run("rev-parse", "HEAD").stdout.decode().strip()
commit = run("commit-tree", top.hex(), "-p", head, "-m", "deep").stdout.decode().strip()
run("update-ref", "refs/heads/main", commit)
PY
    """,
}


@pytest.mark.parametrize("case", BOMBS)
def test_a_result_that_would_unpack_for_ever_is_withheld(conflicting: Desk, case: str) -> None:
    done = run_watched(conflicting, RESOLVE + BOMBS[case])
    assert (done.code, done.word) == (3, "unverified"), done.out + done.err
    assert done.peak < 2 * ENOUGH
    assert conflicting.pushed() == []


def test_many_large_changed_files_are_judged_without_holding_them_all(
    conflicting: Desk,
) -> None:
    large = """python3 - <<'PY'
for n in range(48):
    open(f"large{n}", "w").write(f"{n}\\n" + "x" * 4_190_000)
PY
git add . && git commit -qm large"""
    done = run_watched(conflicting, RESOLVE + large)
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    assert done.peak < ENOUGH


def test_a_result_larger_than_a_gigabyte_is_not_taken(conflicting: Desk) -> None:
    script = """
        git config core.compression 0; git config core.bigFileThreshold 1m
        truncate -s 1100M large && git add large && git commit -qm large && rm large
    """
    done = run_watched(conflicting, RESOLVE + script)
    assert (done.code, done.word) == (3, "unverified"), done.out + done.err
    assert "more than" in done.out
    assert done.peak < ENOUGH
    assert not list(conflicting.last.glob("result.*"))


def test_a_conflict_in_a_file_with_a_hostile_name_is_told_and_settled(desk_for: DeskFor) -> None:
    name = "caf\udce9\x1b[2J\n@ada`.txt"

    def prepare(fork: Fork) -> Fork:
        fork.fork_commits("Ours", {name: "ours\n"})
        fork.upstream_commits("Theirs", {name: "theirs\n", "version.txt": "2\n"})
        return fork

    desk = desk_for(prepare)
    dry = desk.run("--dry-run")
    assert dry.word == "forecast", dry.err
    done = desk.run(
        agent="git merge -q upstream/main; git checkout -q --ours .; git commit -qam ok"
    )
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    body = (desk.last / "pull-request.md").read_text()
    for text in (dry.out, done.out, body, *shown(desk).values()):
        assert not STEERING.search(text)


def test_a_hostile_upstreams_words_are_no_more_trusted_than_the_agents(level: Desk) -> None:
    level.fork.upstream_commits("\x1b[2J @ada fixes #1 `x` <!-- --> [a](b)", {"a.txt": "1\n"})
    done = level.run()
    assert done.word == "merged", done.err
    body = (level.last / "pull-request.md").read_text()
    assert not STEERING.search(body)
    assert "``" in body  # the subject's own backtick does not end the code it is shown as
    subprocess.run(["git", "check-ref-format", f"refs/heads/{level.pushed()[0]}"], check=True)
