"""Growth is what a warm process shows, and a few odd samples do not change it."""

from pathlib import Path

from smartpubsub.testbed.soak.samples import Sample, Samples, sample


def taken(start: int, since_s: int, until_s: int, per_hour: float) -> list[Sample]:
    """Samples of a process that takes 50 MB more in its first five minutes."""
    return [
        Sample(at, start, 100 + min(at - since_s, 300) / 6 + per_hour * at / 3_600, 20, 2, 1.0)
        for at in range(since_s, until_s, 10)
    ]


def test_growth_is_that_of_the_longest_lived_process_once_it_is_warm() -> None:
    samples = Samples({0: [*taken(0, 0, 600, 7.0), *taken(1, 600, 3_600, 3.0)]})
    spoilt = samples.by_node[0]
    spoilt[200] = spoilt[200]._replace(rss_mb=900.0)

    growth = samples.growth(0, warm_up_s=300)

    assert growth.per_hour == {"rss_mb": 3.0, "files": 0.0, "threads": 0.0, "disk_mb": 0.0}
    assert growth.over_s == 2_690.0


def test_a_process_that_did_not_live_long_enough_says_nothing() -> None:
    samples = Samples({0: taken(0, 0, 320, 7.0)})

    assert set(samples.growth(0, warm_up_s=300).per_hour.values()) == {None}
    assert set(samples.growth(1, warm_up_s=300).per_hour.values()) == {None}


def test_a_process_that_has_ended_gives_no_sample(tmp_path: Path) -> None:
    assert sample(0.0, 0, 2**22 + 1, tmp_path) is None
