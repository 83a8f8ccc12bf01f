"""The egress door as a process: no credential is ever handed to it."""

from forklift.sidecar import handover, process
from forklift.sidecar.egress import EgressDoor


def run() -> None:
    told, policy = handover.read_egress(process.read_handover())
    report = process.open_report("egress")
    process.run(told, report, EgressDoor(policy, report.event).serve)
