"""The only reader of environment and configuration files: plain frozen values come out.

Nothing here asks a server or a program, and a secret never leaves but as a `Secret`.
"""

from forklift.settings.egress import egress_policy
from forklift.settings.environment import Settings, load
from forklift.settings.extra_ca import read_extra_ca
from forklift.settings.forges import ForgeSettings, read_forges
from forklift.settings.forks import ForkSettings, read_forks
from forklift.settings.opencode import OpenCodeEnv, model_choice, override, read_opencode_env

__all__ = [
    "ForgeSettings",
    "ForkSettings",
    "OpenCodeEnv",
    "Settings",
    "egress_policy",
    "load",
    "model_choice",
    "override",
    "read_extra_ca",
    "read_forges",
    "read_forks",
    "read_opencode_env",
]
