import json
import os

from forklift.core.journal import Event
from forklift.core.model_access import Usage
from forklift.sidecar.json_value import Object, as_object, load
from forklift.sidecar.report import MAX_LINE, Report


def told(report: Report, descriptor: int) -> list[Object]:
    """Everything that the host will read."""
    report.close(20)
    with os.fdopen(descriptor, "rb") as out:
        return [as_object(load(line)) for line in out.read().splitlines()]


def test_a_flood_is_cut_and_counted() -> None:
    out, into = os.pipe()
    report = Report("egress", into, most=3)
    for number in range(10):
        report.event(Event("egress", "egress.refused", {"n": number}))
    report.event(Event("egress", "egress.tunnel", {}))
    report.usage(Usage(requests=7))
    report.close(20)
    os.close(into)
    lines = told(report, out)
    assert [line["facts"] for line in lines if line.get("action") == "egress.refused"] == [
        {"n": 0},
        {"n": 1},
        {"n": 2},
    ]
    assert lines[-1] == {
        "action": "egress.unlisted",
        "facts": {"more": 8, "egress.refused": 7, "egress.tunnel": 1},
    }
    assert as_object(lines[-2]["usage"])["requests"] == 7, "usage is never left out"


def test_a_line_stays_short_and_printable_whatever_a_guest_puts_into_it() -> None:
    out, into = os.pipe()
    report = Report("model", into)
    hostile = "\x1b[2J\u202e" + "x" * 100_000
    report.event(Event("model", "model.withheld", {"why": hostile, "what": [hostile] * 1000}))
    report.close(20)
    os.close(into)
    (line,) = told(report, out)
    text = json.dumps(line, ensure_ascii=False)
    assert text.isprintable()
    assert len(text.encode()) < MAX_LINE


def test_a_host_that_does_not_read_does_not_stall_the_door() -> None:
    out, into = os.pipe()
    report = Report("egress", into)
    for _ in range(3000):  # far more than the pipe holds
        report.event(Event("egress", "egress.refused", {"why": "x" * 300}))
    os.close(out)
    report.close(20)
    os.close(into)
