"""Fixtures for attacks on the command as a user runs it."""

from tests.support.desks import (
    conflicting,
    desk_for,
    diverging,
    docker_image,
    level,
    runtime,
    stand_in_image,
)

__all__ = [
    "conflicting",
    "desk_for",
    "diverging",
    "docker_image",
    "level",
    "runtime",
    "stand_in_image",
]
