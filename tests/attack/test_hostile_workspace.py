"""An agent that turns its workspace into a trap: nothing in it runs on, or leads to, the host.

Every case really attacks, from inside a real container. The canary is a directory that exists on
the host alone: whatever ran there, or was written there, lies in it afterwards.
"""

import os
import shlex
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from forklift.bootstrap import make_kit
from forklift.errors import UnsafeOutput
from forklift.git.depot import Depot
from forklift.git.quarantine import Quarantine
from forklift.settings import load
from forklift.stores.run_directory import create
from forklift.stores.trees import hand_over
from forklift.testing.repositories import Repo
from forklift.usecases.collect_result import collect_result
from forklift.usecases.live_run import LiveRun
from tests.support.desk import RESOLVE, Desk

pytestmark = pytest.mark.docker


@dataclass(frozen=True, slots=True)
class Canary:
    """`touch <place>/<name>` succeeds on the host and nowhere else."""

    place: Path

    def touch(self, name: str) -> str:
        return f"touch {shlex.quote(str(self.place / name))}"

    def secret(self) -> Path:
        return self.place.parent / "secret.txt"

    @property
    def fired(self) -> list[str]:
        return sorted(path.name for path in self.place.iterdir())


@pytest.fixture
def canary(tmp_path: Path) -> Canary:
    place = tmp_path / "only-on-the-host" / "canary"
    place.mkdir(parents=True)
    # Writable for everyone: a guest that could reach it could also write it.
    place.chmod(0o777)
    (place.parent / "secret.txt").write_text("the-hosts-own-secret\n")
    return Canary(place)


def works_again(desk: Desk) -> None:
    """A later honest run is none the worse for what happened before."""
    done = desk.run(agent=RESOLVE)
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    assert desk.containers() == []


PROGRAMS = (
    "core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass",
    "core.gitProxy", "core.alternateRefsCommand", "uploadpack.packObjectsHook", "gpg.program",
    "gpg.ssh.program", "diff.external", "diff.trap.textconv", "diff.trap.command",
    "merge.trap.driver", "filter.trap.clean", "filter.trap.smudge", "filter.trap.process",
    "sequence.editor", "interactive.diffFilter", "trailer.trap.command", "remote.evil.vcs",
)  # fmt: skip
SHELL_COMMANDS = ("credential.helper", "alias.bundle", "alias.rev-parse", "alias.fetch")
HOOKS = (
    "applypatch-msg", "commit-msg", "fsmonitor-watchman", "post-applypatch", "post-checkout",
    "post-commit", "post-index-change", "post-merge", "post-receive", "post-rewrite",
    "post-update", "pre-applypatch", "pre-auto-gc", "pre-commit", "pre-merge-commit", "pre-push",
    "pre-rebase", "pre-receive", "prepare-commit-msg", "proc-receive", "push-to-checkout",
    "reference-transaction", "sendemail-validate", "update",
)  # fmt: skip


def programs(canary: Canary) -> str:
    """Every way in which a repository's own configuration names a program."""
    lines = [
        f"git config {key} {shlex.quote(prefix + canary.touch(key))}"
        for prefix, keys in (("", PROGRAMS), ("!", SHELL_COMMANDS))
        for key in keys
    ]
    hooks = [
        f"printf '#!/bin/sh\\n{canary.touch(name)}\\n' > .git/hooks/{name}; "
        f"chmod +x .git/hooks/{name}; cp .git/hooks/{name} ../workspace/hooks-elsewhere/{name}"
        for name in HOOKS
    ]
    return "\n".join(
        [
            "mkdir -p .git/hooks .git/info hooks-elsewhere",
            *hooks,
            "printf '* filter=trap diff=trap merge=trap text eol=crlf\\n' > .gitattributes",
            "cp .gitattributes .git/info/attributes",
            *lines,
            "git config commit.gpgSign true; git config push.gpgSign true",
            "git config log.showSignature true",
            "git config core.hooksPath /workspace/hooks-elsewhere",
            f"git config include.path {canary.place}/included",
            "git config receive.procReceiveRefs refs; git config gc.auto 1",
        ]
    )


def test_no_program_that_the_workspaces_configuration_names_runs_on_the_host(
    conflicting: Desk, canary: Canary
) -> None:
    done = conflicting.run(agent=RESOLVE + programs(canary))
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    assert canary.fired == []
    for command in (["show"], ["logs"], ["status"], ["clean", "--older-than", "1s", "--dry-run"]):
        assert conflicting.run(*command).code == 0
    assert canary.fired == []


REFS = """
good=$(git rev-parse HEAD); bad=$(git rev-parse HEAD^1)
git update-ref refs/remotes/upstream/main $bad
git update-ref refs/remotes/origin/main $good
git replace -f $good $bad
git update-ref 'refs/heads/--upload-pack=touch' $bad
git update-ref refs/heads/forklift/upstream-20990101-deadbeef $bad
git tag v99.0 $bad; git -c user.name=x -c user.email=x@y tag -a -m annotated v99.1 $good
git notes add -m noted $good
git stash store -m stashed $bad
git update-ref refs/pull/1/head $bad
git update-ref FETCH_HEAD $bad; printf '%s\\n' $bad > .git/ORIG_HEAD
git symbolic-ref HEAD refs/heads/main
git rev-parse HEAD > .git/shallow
"""


def test_only_the_one_branch_leaves_whatever_other_names_the_workspace_holds(
    conflicting: Desk,
) -> None:
    origin = conflicting.fork.origin
    before = set(origin.git("for-each-ref", "--format=%(refname)").split())
    done = conflicting.run(agent=RESOLVE + REFS)
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    (branch,) = conflicting.pushed()
    after = set(origin.git("for-each-ref", "--format=%(refname)").split())
    assert after - before == {f"refs/heads/{branch}"}
    assert origin.file(branch, "version.txt") == "2"
    depots = list((conflicting.state / "depots").glob("*.git"))
    names = [name for depot in depots for name in (depot / "refs").rglob("*")]
    assert not [name for name in names if "replace" in name.parts or "notes" in name.parts]


LIES = {
    "an 'ours' merge of an upstream that it moved": """
        git update-ref refs/remotes/upstream/main HEAD^; git merge -q -s ours upstream/main
        git commit -q --allow-empty -m 'Merge upstream'
    """,
    "a graft that claims upstream as a parent": """
        echo x > x; git add x; git commit -qm x; mkdir -p .git/info
        git rev-parse HEAD HEAD^ upstream/main | tr '\\n' ' ' > .git/info/grafts
    """,
    "a replacement that has upstream as a parent": """
        echo x > x; git add x; git commit -qm x; real=$(git rev-parse HEAD)
        git merge -q -s ours --no-edit upstream/main; git replace $real $(git rev-parse HEAD)
        git update-ref refs/heads/main $real
    """,
}


@pytest.mark.parametrize("case", LIES)
def test_a_lie_about_the_history_is_seen_through(conflicting: Desk, case: str) -> None:
    done = conflicting.run(agent=LIES[case])
    assert (done.code, done.word) == (3, "unverified"), done.out + done.err
    assert "upstream's commits are not in the result" in done.out
    assert conflicting.pushed() == []
    works_again(conflicting)


REDIRECTS = {
    "a gitfile": "rm -rf .git; echo 'gitdir: {git}' > .git",
    "a linked .git": "rm -rf .git; ln -s {git} .git",
    "a commondir": "rm -rf .git/objects .git/refs .git/packed-refs; echo {git} > .git/commondir",
    "alternates": "mkdir -p .git/objects/info; echo {git}/objects > .git/objects/info/alternates;"
    " find .git/objects -type f -name '[0-9a-f]*' -delete",
    "linked objects": "rm -rf .git/objects; ln -s {git}/objects .git/objects",
    "a work tree elsewhere": "git config core.worktree {git}; rm -rf .git/objects",
    "a promisor remote with what is missing": "git config core.repositoryFormatVersion 1;"
    " git config extensions.partialClone evil; git config remote.evil.promisor true;"
    " git config protocol.ext.allow always; git config remote.evil.url 'ext::sh -c {touch}';"
    " rm -rf .git/objects/??",
    "a pipe for a configuration": "rm .git/config; mkfifo .git/config",
    "a pipe for a branch": "rm -f .git/packed-refs; mkdir -p .git/refs/heads;"
    " rm -f .git/refs/heads/main; mkfifo .git/refs/heads/main",
    "a device for a configuration": "rm .git/config; ln -s /dev/zero .git/config",
    "a link into the image": "ln -s / .git/everything",
}


@pytest.mark.parametrize("case", REDIRECTS)
def test_a_repository_that_leads_elsewhere_gives_no_result_and_reaches_nothing(
    conflicting: Desk, canary: Canary, case: str
) -> None:
    git = conflicting.fork.checkout.path / ".git"
    script = REDIRECTS[case].format(git=git, touch=canary.touch("promisor").replace(" ", "% "))
    done = conflicting.run(agent=RESOLVE + script)
    assert (done.code, done.word) == (3, "unverified"), done.out + done.err
    assert canary.fired == []
    assert conflicting.pushed() == []
    works_again(conflicting)


QUESTIONS = {
    "a link to a file of the host's": "ln -s {secret} STUCK.md",
    "a link to a file of the image's": "ln -s /etc/passwd STUCK.md",
    "a pipe": "mkfifo STUCK.md",
    "a socket": "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('STUCK.md')\"",
    "a directory": "mkdir -p STUCK.md/x",
}


@pytest.mark.parametrize("case", QUESTIONS)
def test_a_stuck_file_that_is_no_file_is_told_and_never_opened(
    conflicting: Desk, canary: Canary, case: str
) -> None:
    done = conflicting.run(agent=QUESTIONS[case].format(secret=canary.secret()))
    assert (done.code, done.word) == (4, "stuck"), done.out + done.err
    assert "STUCK.md cannot be shown" in done.out
    shown = conflicting.run("show")
    assert shown.code == 0
    for text in (done.out, shown.out):
        assert "the-hosts-own-secret" not in text
        assert "root:x" not in text


async def test_a_repository_that_keeps_git_waiting_is_given_up_at_the_limit(
    conflicting: Desk, docker_image: str
) -> None:
    kit = make_kit(load(conflicting.environ), conflicting.environ, image=docker_image)
    run = LiveRun(kit, create(kit.state_root, "greeter", kit.clock()))
    workspace = Repo(run.workspace)
    workspace.path.mkdir()
    workspace.git("init", "-q", "-b", "main")
    workspace.commit("Begin", {"x": "x\n"})
    workspace.git("config", "include.path", "/workspace/pipe")
    os.mkfifo(workspace.path / "pipe")
    hand_over(workspace.path, kit.guest.uid, kit.guest.gid)
    quarantine = Quarantine(run.path / "quarantine.git", Depot(run.path / "depot.git", run.path))
    await quarantine.create()
    image = await kit.sandboxes.find_image(docker_image)
    limit = timedelta(seconds=3)
    with pytest.raises(UnsafeOutput, match="could not be read within 3 s"):
        await collect_result(kit, run, image.digest, quarantine, "main", (), limit)
    assert conflicting.containers() == []


def test_a_device_cannot_be_made_at_all(conflicting: Desk) -> None:
    done = conflicting.run(agent="mknod STUCK.md c 1 5 2>/dev/null; mknod x b 8 0; test -e x")
    assert (done.code, done.word) == (5, "agent"), done.out + done.err


LEFT_BEHIND = """
cd /harness-state
rm -rf ./* ./.[!.]*
ln -s {secret} transcript.jsonl
ln -s {secret} instructions.txt
mkfifo agent.stderr.log
mkfifo setup.log
ln -s / home
ln -s {place} logs
"""


def test_a_harness_state_of_links_and_pipes_leads_nowhere(
    conflicting: Desk, canary: Canary
) -> None:
    script = LEFT_BEHIND.format(secret=canary.secret(), place=canary.place)
    done = conflicting.run(agent=RESOLVE + script)
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    logs = conflicting.run("logs")
    assert logs.code == 0
    assert "cannot be shown" in logs.out
    for path in (conflicting.last / "pull-request.md", conflicting.last / "container.log"):
        assert "the-hosts-own-secret" not in path.read_text()
    assert "the-hosts-own-secret" not in done.out + logs.out
    assert canary.secret().read_text() == "the-hosts-own-secret\n"
    cleaned = conflicting.run("clean", "--older-than", "0s")
    assert cleaned.code == 0, cleaned.err
    assert conflicting.runs() == []
    assert canary.secret().exists()


OWN_TOOLS = """
mkdir -p ~/.local/bin ~/bin .git/bin
for place in ~/.local/bin ~/bin /tmp /workspace /workspace/.git/bin; do
    for name in git sh bundle python3 find timeout; do
        printf '#!/bin/sh\\n{touch}\\necho %040d\\n' 0 > $place/$name
        chmod +x $place/$name
    done
done
for file in ~/.bashrc ~/.profile ~/.bash_profile ~/.gitconfig ~/.config/git/config; do
    mkdir -p $(dirname $file)
    echo 'export PATH=/workspace/.git/bin:/workspace:$PATH; {touch}' > $file
done
export PATH=/workspace/.git/bin:$PATH
"""


def test_tools_that_the_agent_put_in_gits_place_are_used_by_nobody_but_itself(
    conflicting: Desk, canary: Canary
) -> None:
    done = conflicting.run(agent=RESOLVE + OWN_TOOLS.format(touch=canary.touch("tools")))
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    assert canary.fired == []


DAEMONS = """
for n in 1 2 3; do
    setsid nohup sh -c 'trap "" TERM HUP INT; while :; do sleep 0.2; git gc -q; done' \\
        </dev/null >/dev/null 2>&1 &
done
(while :; do echo still here; done) &
disown -a
"""


def test_what_the_agent_leaves_running_ends_with_it(conflicting: Desk) -> None:
    done = conflicting.run(agent=RESOLVE + DAEMONS)
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    assert conflicting.containers() == []
