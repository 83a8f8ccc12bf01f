"""Forklift: unattended coding agents for Git repositories, without trusting the worker."""

__version__ = "0.1.0"
