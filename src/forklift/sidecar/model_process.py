"""The model door as a process: it holds the model's key, and speaks to that model's server only."""

from forklift.sidecar import handover, process
from forklift.sidecar.model import ModelDoor


def run() -> None:
    told, policy = handover.read_model(process.read_handover())
    report = process.open_report("model")
    process.run(told, report, ModelDoor(policy, report.event, report.usage).serve)
