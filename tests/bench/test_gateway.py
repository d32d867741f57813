"""The benchmark of the gateway counts what readers get."""

from smartpubsub.bench.gateway import run


def test_every_reader_gets_every_event_once() -> None:
    report = run(lambda _: None, readers=10, per_s=20, seconds=1)
    figures = {name: value for name, (value, _) in report.figures.items()}
    assert (figures["deliveries"], figures["lost"], figures["repeated"]) == (200, 0, 0)
    assert all(ratio.ok for ratio in report.ratios)
