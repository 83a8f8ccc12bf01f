"""Which process answers for something, named so that a reused pid is not mistaken for it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Owner:
    """A host process.

    `namespace` identifies the machine and pid namespace (boot id and namespace inode): a process
    in another one cannot be judged dead from here.
    """

    pid: int
    started: int
    namespace: str
