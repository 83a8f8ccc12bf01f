"""The profile: an allow-list, and what must never be on it."""

import json
from importlib import resources
from typing import Any

import pytest

PROFILE: dict[str, Any] = json.loads(
    (resources.files("forklift.sandboxes") / "seccomp.json").read_text()
)
ALLOWED = {
    name
    for rule in PROFILE["syscalls"]
    if rule["action"] == "SCMP_ACT_ALLOW" and not rule.get("args")
    for name in rule["names"]
}


def test_what_is_not_named_is_refused() -> None:
    assert PROFILE["defaultAction"] == "SCMP_ACT_ERRNO"


def test_32_bit_calls_are_no_way_around() -> None:
    assert [entry["subArchitectures"] for entry in PROFILE["archMap"]] == [[], []]


@pytest.mark.parametrize(
    "name",
    [
        "mount",
        "umount2",
        "unshare",
        "setns",
        "clone",
        "clone3",
        "socket",
        "socketpair",
        "bpf",
        "keyctl",
        "add_key",
        "request_key",
        "userfaultfd",
        "perf_event_open",
        "io_uring_setup",
        "io_uring_enter",
        "io_uring_register",
        "pidfd_getfd",
        "open_by_handle_at",
        "kexec_load",
        "init_module",
        "finit_module",
        "reboot",
        "pivot_root",
        "chroot",
        "personality",
        "memfd_secret",
        "modify_ldt",
        "iopl",
        "ioperm",
        "swapon",
        "fsopen",
        "fsmount",
        "move_mount",
        "quotactl",
        "syslog",
    ],
)
def test_a_dangerous_call_is_not_allowed_unconditionally(name: str) -> None:
    assert name not in ALLOWED


def test_sockets_are_local_loopback_or_about_routes() -> None:
    rules = [rule["args"] for rule in PROFILE["syscalls"] if "socket" in rule["names"]]
    families = sorted(args[0]["value"] for args in rules)
    assert families == [1, 2, 10, 16]
    assert all(
        arg["op"] == "SCMP_CMP_EQ" and args[0]["index"] == 0 for args in rules for arg in args
    )


def test_no_call_is_listed_twice() -> None:
    plain = [n for r in PROFILE["syscalls"] if not r.get("args") for n in r["names"]]
    assert len(plain) == len(set(plain))
