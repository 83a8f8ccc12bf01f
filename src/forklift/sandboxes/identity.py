"""The passwd and group that give a guest's uid a name: whoami, Node and Git fail without one."""

from pathlib import Path

from forklift.sandboxes.port import Mount

GUEST_HOME = "/harness-state/home"
ROOT_GUEST = 1000
"""Who a guest is when root calls: a guest is never root."""


def guest_ids(uid: int, gid: int) -> tuple[int, int]:
    """The caller's own uid and gid, so that the caller can read and delete what is left."""
    return (uid, gid or ROOT_GUEST) if uid else (ROOT_GUEST, ROOT_GUEST)


def write_identity(folder: Path, uid: int, gid: int) -> tuple[Mount, Mount]:
    """Write both files into `folder`, which the guest cannot write to; the mounts to add."""
    passwd, group = folder / "passwd", folder / "group"
    passwd.write_text(
        "root:x:0:0:root:/root:/usr/sbin/nologin\n"
        f"forklift:x:{uid}:{gid}:Forklift:{GUEST_HOME}:/bin/bash\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
        encoding="ascii",
    )
    group.write_text(f"root:x:0:\nforklift:x:{gid}:\nnogroup:x:65534:\n", encoding="ascii")
    for file in (passwd, group):
        file.chmod(0o644)
    return Mount(passwd, "/etc/passwd"), Mount(group, "/etc/group")
