"""The meaning of the names in a report."""

from __future__ import annotations

from smartpubsub.reports.latency_figures import Rows, scenarios_in
from smartpubsub.reports.page import Section, table

SCENARIOS = {
    "normal": "subscribers of several interests, and one event every 100 ms",
    "sub-burst": "all subscriptions are made in a short time",
    "event-burst": "all events are published in a short time",
    "fault": "nodes crash, among them one that serves many",
    "replication": "every subscriber adds a subscription in each of four stages",
    "reddit": "comments of a forum: a few topics have most of the events",
    "power-law": "a few topics have most of the events and subscriptions",
    "small": "five nodes leave, crash and return one at a time",
    "workload": "the actions of a file",
}
VARIANTS = {
    "redirect-reliable": "with shortcuts past relays that want nothing; confirmed and sent again",
    "redirect-unreliable": "with shortcuts past relays that want nothing; sent once",
    "base-reliable": "without shortcuts; confirmed and sent again",
    "base-unreliable": "without shortcuts; sent once",
    "ordered": "all events of a topic come in one order",
}


def words(runs: Rows) -> Section:
    """The scenarios and variants of a report, each in a sentence."""
    rows = []
    for name in scenarios_in(runs):
        kind, _, links = name.partition(",")
        meaning = SCENARIOS.get(kind, "a scenario of its own")
        rows.append(["scenario", name, meaning + (f"; links:{links}" if links else "")])
    variants = dict.fromkeys(row["variant"] for row in runs if row["variant"])
    rows += [["variant", name, VARIANTS.get(name, "a variant of its own")] for name in variants]
    body = table(["what", "name", "meaning"], rows, paper="paper")
    return Section(
        name="words", title="Names", text="What the names in this report mean.", body=body
    )
