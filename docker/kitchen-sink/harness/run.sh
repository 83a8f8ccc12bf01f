#!/bin/sh
# The only command a Forklift sandbox starts. -I: neither the workspace nor the environment may
# lend init a module.
exec /usr/bin/python3 -I /opt/forklift/harness/init.py
