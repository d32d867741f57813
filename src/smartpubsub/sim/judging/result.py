"""The result of a run as one document."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from smartpubsub.protocols.publication import EventId
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.experiments.running import Run, protocol_of
from smartpubsub.sim.judging.checkers import Findings, check_all
from smartpubsub.sim.judging.checkers.facts import Facts
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.judging.journal import DeliveryRecord
from smartpubsub.sim.judging.spread import spread
from smartpubsub.sim.judging.verdict import Verdict, verdict_on
from smartpubsub.sim.kernel.collector import collector_off
from smartpubsub.sim.kernel.places import region_of
from smartpubsub.sim.traces.trace import Row

_LATENCY = ("mean", "p50", "p95", "p99", "max")
_PUBLISH = ("p50", "p99", "max")
_PER_NODE = ("mean", "sd", "p95", "p99")


@dataclass(frozen=True, kw_only=True)
class Result:
    """A run that is over: its figures, its findings, and the resources that it took."""

    experiment: Run
    scenario: str
    verdict: Verdict
    findings: Findings
    wall_s: float
    cpu_s: float
    peak_rss_mb: float
    more: Mapping[str, object] = field(default_factory=dict)
    """Further keys of the document."""

    @property
    def violations(self) -> list[Violation]:
        """All violations of invariants."""
        return self.findings.violations

    def document(self) -> dict[str, object]:
        """The result as a JSON document."""
        options, verdict = self.experiment.options, self.verdict
        journal = self.experiment.observer.journal
        traffic = self.experiment.traffic()
        first = [d for d in first_deliveries(journal.deliveries) if d.id in journal.events]
        taken = [event for event in journal.events.values() if event.refused is None]
        return {
            "protocol": options.protocol,
            "variant": protocol_of(self.experiment).variant_of(options.protocol_options),
            "scenario": self.scenario,
            "nodes": options.nodes,
            "seed": options.seed,
            "trace_digest": self.experiment.observer.trace.digest(),
            "injected": verdict.injected,
            "published": verdict.published,
            "expected": verdict.expected,
            "delivered": verdict.delivered,
            "missing": verdict.missing,
            "unexpected": verdict.unexpected,
            "app_duplicates": verdict.app_duplicates,
            "wire_duplicates": journal.wire_duplicates,
            "coverage_injected": verdict.coverage_injected,
            "coverage_published": verdict.coverage_published,
            "order_violations": verdict.order_violations,
            "delivered_within_ms": verdict.delivered_within_ms,
            "adversaries": dict(self.experiment.adversary_counts),
            "convicted": dict(self.experiment.convicted_counts),
            "convicted_by": self._convicted_by(),
            "convicted_honest": self.experiment.convicted_honest,
            "latency_ms": spread(self._latencies_ms(first), *_LATENCY),
            "subscription_latency_ms": spread(self._subscription_latencies_ms(), *_LATENCY),
            "publish_ms": spread(self._publish_ms(), *_PUBLISH),
            "path_floor_ms": self._path_floor_ms(first),
            "hops": spread([delivery.hops for delivery in first], "mean", "max"),
            "publisher_sends_per_event": spread([e.first_copies for e in taken], "mean", "max"),
            "region_crossings_per_event": spread([e.crossings for e in taken], "mean", "max"),
            "messages": sum(node.sent for node in traffic),
            "bytes": sum(node.sent_bytes for node in traffic),
            "rpc_sent_per_node": spread([node.sent for node in traffic], *_PER_NODE),
            "rpc_received_per_node": spread([node.received for node in traffic], *_PER_NODE),
            "violations": [violation.document() for violation in self.violations],
            **self.findings.counts(),
            "wall_s": round(self.wall_s, 3),
            "cpu_s": round(self.cpu_s, 3),
            "peak_rss_mb": round(self.peak_rss_mb, 1),
            "simulated_s": round((journal.ended_us - self.experiment.began_us) / 1e6, 3),
            "pace_ms": self.experiment.workload.pace_us / 1000,
            "interrupted": self.experiment.was_interrupted,
            **self.more,
        }

    def _convicted_by(self) -> Mapping[str, Mapping[str, int]]:
        """How many adversaries honest nodes have convicted, by kind and by evidence.

        Each protocol has one kind of evidence at most.
        """
        evidence = protocol_of(self.experiment).evidence
        counts = self.experiment.convicted_counts
        return {kind: {evidence: count} for kind, count in counts.items()}

    def _path_floor_ms(self, deliveries: list[DeliveryRecord]) -> Mapping[str, float | None]:
        network, peers = self.experiment.options.network, self.experiment.peers
        if not network.regions:
            return spread([d.hops * network.latency_us / 1000 for d in deliveries], "mean")
        if not protocol_of(self.experiment).stays_in_region:
            return {"mean": None}  # The links that an event took are not known.
        floors = []
        for delivery in deliveries:
            ends = (delivery.id.publisher, peers[delivery.node])
            first, last = (region_of(peer, network.regions) for peer in ends)
            first_us = network.near_us if first == last else network.far_us
            hops = delivery.hops
            floors.append((first_us + (hops - 1) * network.near_us if hops else 0) / 1000)
        return spread(floors, "mean")

    def _latencies_ms(self, deliveries: list[DeliveryRecord]) -> list[float]:
        events = self.experiment.observer.journal.events
        return [(d.at_us - events[d.id].called_us) / 1000 for d in deliveries]

    def _subscription_latencies_ms(self) -> list[float]:
        records = self.experiment.observer.journal.subscriptions.values()
        return [(r.in_force[0].start_us - r.called_us) / 1000 for r in records if r.in_force]

    def _publish_ms(self) -> list[float]:
        events = self.experiment.observer.journal.events.values()
        return [
            (event.acknowledged_us - event.called_us) / 1000
            for event in events
            if event.acknowledged_us is not None
        ]


def first_deliveries(deliveries: list[DeliveryRecord]) -> list[DeliveryRecord]:
    """The first delivery of each event to each node."""
    first: dict[tuple[EventId, int], DeliveryRecord] = {}
    for delivery in deliveries:
        first.setdefault((delivery.id, delivery.node), delivery)
    return list(first.values())


def run(experiment: Experiment, scenario: str) -> Result:
    """Run an experiment in the simulated world, and judge it."""
    wall, cpu = time.perf_counter(), time.process_time()
    with collector_off():
        experiment.run()
        verdict, findings = judged(experiment, scenario)
    return Result(
        experiment=experiment,
        scenario=scenario,
        verdict=verdict,
        findings=findings,
        wall_s=time.perf_counter() - wall,
        cpu_s=time.process_time() - cpu,
        peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def end_row(run: Run, scenario: str) -> Row:
    """The last row of a trace, which describes the run.

    A reader that computes the result's figures from the trace needs more than its rows: when the
    workload began, how many nodes there were, and the latency of links.
    """
    options, chosen = run.options, run.options.protocol_options
    about = {
        "protocol": options.protocol,
        "variant": protocol_of(run).variant_of(chosen),
        "scenario": scenario,
        "nodes": options.nodes,
        "seed": options.seed,
        "backups": chosen.backups,
        "began_us": run.began_us,
        # With regions, links differ, and the trace does not show which ones an event took.
        "latency_us": None if options.network.regions else options.network.latency_us,
        "refresh_us": chosen.renew_us,
        "promises_order": promises_order(run),
        "unordered": [str(p) for p, is_kept in run.observer.ordered.items() if not is_kept],
        "interrupted": run.was_interrupted,
    }
    return Row(run.observer.journal.ended_us, "end", -1, text=json.dumps(about))


def judged(run: Run, scenario: str) -> tuple[Verdict, Findings]:
    """Judge a run that is over."""
    run.observer.trace.add_row(end_row(run, scenario))
    facts = facts_of(run)
    return verdict_on(facts), check_all(facts)


def promises_order(run: Run) -> bool:
    """Whether at least some subscriptions get a publisher's events in its order."""
    return protocol_of(run).promises_order or any(run.observer.ordered.values())


def facts_of(run: Run) -> Facts:
    """The facts about a run for the checkers."""
    spec, options = protocol_of(run), run.options.protocol_options
    ordered, network = run.observer.ordered, run.options.network
    liar_count, liar_count_max = sum(run.adversary_counts.values()), run.options.liar_count_max
    return Facts(
        journal=run.observer.journal,
        oracle=run.observer.oracle,
        is_reliable=spec.is_reliable(options),
        promises_order=promises_order(run),
        chained=spec.has_only_topics,
        unordered=frozenset(p for p, is_ordered in ordered.items() if not is_ordered),
        was_interrupted=run.was_interrupted,
        network_reorders=network.reordering and network.jitter_us > 0,
        failures_max=options.backups,
        refresh_us=options.renew_us,
        inspections=run.inspections,
        nodes_by_peer={peer: number for number, peer in enumerate(run.peers)},
        state_check_count=run.state_check_count,
        state_violations=run.state_violations,
        has_adversaries=bool(liar_count),
        has_too_many_liars=liar_count_max is not None and liar_count > liar_count_max,
        liars=frozenset() if liar_count_max is None else frozenset(run.liars),
        keeper_count=spec.keeper_count(options),
        newcomers=frozenset(run.newcomers),
        convicted_count=sum(run.convicted_counts.values()) + run.convicted_honest,
        convicted_honest_count=run.convicted_honest,
    )
