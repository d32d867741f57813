"""The counters of a live node as Prometheus metrics.

Names are those that other implementations of libp2p use, where they have one for the same thing;
others begin with `smartpubsub_`. All values are read from existing counters when the metrics are
requested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import metadata

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from smartpubsub.node.engine import Engine
from smartpubsub.protocols.pubsub import Bound, SubscriptionState
from smartpubsub.protocols.registry import codecs_of


class NodeMetrics(Collector):
    """The metrics of one node, in its own registry, because a process may have several nodes."""

    def __init__(self, engine: Engine, handler_error_count: Callable[[], int]) -> None:
        self._engine = engine
        self._handler_error_count = handler_error_count
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        codecs = codecs_of(engine.config.protocol)
        self._event_kinds = sorted({kind for codec in codecs for kind in codec.event_kinds})

    def text(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        """Yield nothing: a node that does not run has no metrics."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics but those of the process."""
        yield from self._connections()
        yield from self._messages()
        yield from self._refusals()
        yield from self._events()
        yield from self._kept()

    def _connections(self) -> Iterator[Metric]:
        host, core = self._engine.host, self._engine.core
        config = self._engine.config
        about = {"version": metadata.version("smartpubsub"), "protocol": config.protocol}
        if variant := self._engine.spec.variant(config.variant or None):
            about["variant"] = variant
        yield InfoMetricFamily("smartpubsub", "The version and protocol of this node.", about)
        yield GaugeMetricFamily(
            "libp2p_swarm_connections", "Connections that are open.", host.connections.count
        )
        yield GaugeMetricFamily(
            "kad_routing_table_peers", "Peers in the routing table.", len(core.kademlia.table)
        )
        yield CounterMetricFamily(
            "libp2p_swarm_dial_errors", "Peers that could not be dialled.", host.counts.failed_dials
        )
        yield CounterMetricFamily(
            "smartpubsub_answers_unheeded",
            "Answers of peers that had named too many unreachable peers.",
            host.counts.unheeded,
        )
        yield CounterMetricFamily(
            "smartpubsub_connections_pruned", "Connections closed to make room.", host.counts.pruned
        )

    def _messages(self) -> Iterator[Metric]:
        counts = self._engine.host.counts
        yield _labelled(
            "libp2p_network_bytes",
            "Bytes of messages, without the overhead of libp2p.",
            "direction",
            {"in": counts.received_bytes, "out": counts.sent_bytes},
        )
        yield _labelled(
            "smartpubsub_messages",
            "Messages of the protocols.",
            "direction",
            {"in": counts.received, "out": counts.sent},
        )
        yield _labelled(
            "smartpubsub_received_kinds",
            "Messages received, by kind.",
            "kind",
            counts.received_kinds,
        )
        yield _labelled(
            "smartpubsub_sent_kinds",
            "Messages sent, by kind.",
            "kind",
            counts.sent_kinds,
        )
        yield _labelled(
            "libp2p_pubsub_rpc_drop",
            "Messages dropped before they were sent.",
            "reason",
            {
                "full": counts.dropped_full,
                "unreachable": counts.dropped_unreachable,
                "broken": counts.dropped_broken,
                "large": counts.dropped_large,
            },
        )

    def _refusals(self) -> Iterator[Metric]:
        counts, core = self._engine.host.counts, self._engine.core
        yield _labelled(
            "libp2p_rcmgr_blocked_resources",
            "Connections and streams that were refused.",
            "resource",
            {
                "connection": counts.refused_connections,
                "prefix": counts.refused_prefix,
                "stream": counts.refused_streams,
            },
        )
        reasons = {
            "garbage": counts.garbage,
            "large": counts.refused_large,
            "rate": counts.refused_rate,
            "unfinished": counts.refused_unfinished,
            "kademlia": core.kademlia.refused,
        }
        yield _labelled(
            "libp2p_pubsub_reject_reason",
            "Messages of peers that this node refused.",
            "reason",
            {**reasons, **self._engine.tally.refused},
        )
        failures = self._engine.failures
        yield _labelled(
            "smartpubsub_failures",
            "Inputs dropped because handling them raised an exception.",
            "reason",
            failures.dropped,
        )
        yield CounterMetricFamily(
            "smartpubsub_core_restarts",
            "Restarts of the protocols from storage after an exception.",
            failures.restarts,
        )
        yield GaugeMetricFamily(
            "smartpubsub_banned_peers",
            "Peers that are banned because their messages have raised an exception.",
            failures.banned,
        )
        yield GaugeMetricFamily(
            "smartpubsub_convicted_peers",
            "Peers that have signed contradicting statements.",
            len(self._engine.convicted()),
        )
        yield GaugeMetricFamily(
            "smartpubsub_blamed_peers",
            "Peers that are blamed for lost events without proof.",
            len(core.kademlia.blame.states(self._engine.host.clock.now())),
        )
        yield CounterMetricFamily(
            "smartpubsub_refused_banned",
            "Connections and streams of banned and convicted peers that were refused.",
            counts.refused_banned,
        )
        yield CounterMetricFamily(
            "smartpubsub_delayed", "Messages delayed by a rate limit.", counts.delayed
        )
        yield CounterMetricFamily(
            "smartpubsub_delayed_expensive",
            "Messages delayed because their peer had used its share of the processor.",
            counts.delayed_expensive,
        )
        yield GaugeMetricFamily(
            "smartpubsub_unfinished_bytes",
            "Bytes of incomplete messages.",
            self._engine.host.unfinished_bytes,
        )
        ledger = list(core.kademlia.ledger)
        yield _labelled(
            "smartpubsub_ledger_refused",
            "Entries of peers refused because of a limit.",
            "account",
            {account.name: account.refused for account in ledger},
        )
        yield _labelled(
            "smartpubsub_ledger_evicted",
            "Entries of peers evicted in favour of others.",
            "account",
            {account.name: account.evicted for account in ledger},
        )
        yield _labelled(
            "smartpubsub_ledger_size",
            "Entries kept for peers.",
            "account",
            {account.name: account.size for account in ledger},
            GaugeMetricFamily,
        )
        yield _labelled(
            "smartpubsub_ledger_size_max",
            "The limit of entries kept for peers.",
            "account",
            {account.name: account.size_max for account in ledger},
            GaugeMetricFamily,
        )
        yield _labelled(
            "smartpubsub_too_fast",
            "Messages beyond the rate limit, delayed or refused, by kind.",
            "kind",
            counts.refused_kinds,
        )
        yield CounterMetricFamily(
            "smartpubsub_unanswered", "Questions whose stream ended first.", counts.unanswered
        )

    def _events(self) -> Iterator[Metric]:
        counts, items = self._engine.host.counts, self._engine.item_counts
        yield CounterMetricFamily(
            "libp2p_pubsub_messages_published",
            "Events of this node that the network has acknowledged.",
            items["Published"],
        )
        yield CounterMetricFamily(
            "libp2p_pubsub_received_messages",
            "Copies of events received for subscribers here or further down the tree.",
            sum(counts.received_kinds[kind] for kind in self._event_kinds),
        )
        yield CounterMetricFamily(
            "smartpubsub_events_delivered",
            "Events delivered to subscriptions of this node.",
            items["Delivery"],
        )
        yield CounterMetricFamily(
            "smartpubsub_events_refused",
            "Events of this node that the network has refused.",
            items["Refused"],
        )
        yield CounterMetricFamily(
            "smartpubsub_events_dropped",
            "Events that subscriptions of this node have dropped because they were not read.",
            self._engine.dropped_in_memory + self._engine.queues.totals.dropped,
        )
        yield CounterMetricFamily(
            "smartpubsub_handler_errors",
            "Errors that handlers of the application have raised.",
            self._handler_error_count(),
        )
        states = Counter(state.value for state in self._states())
        yield _labelled(
            "smartpubsub_subscriptions",
            "Subscriptions of this node.",
            "state",
            {state.value: states[state.value] for state in SubscriptionState},
            GaugeMetricFamily,
        )

    def _states(self) -> list[SubscriptionState]:
        core, now = self._engine.core, self._engine.host.clock.now()
        pulsar = self._engine.pulsar
        topics = pulsar.subscriptions.wanted
        return [
            *(core.state_of(number, now) for number in core.subscriptions),
            *(pulsar.state_of(n, now) for n in topics if n not in core.subscriptions),
        ]

    def _kept(self) -> Iterator[Metric]:
        engine = self._engine
        limits, totals = engine.queues.limits, engine.queues.totals
        waiting = Bound("bytes for readers", totals.byte_count, limits.all_bytes_max)
        bounds = [*engine.tally.bounds, waiting]
        yield _labelled(
            "smartpubsub_held",
            "Entries of each limited collection.",
            "what",
            {bound.what: bound.held for bound in bounds},
            GaugeMetricFamily,
        )
        yield _labelled(
            "smartpubsub_held_max",
            "The limit of each collection.",
            "what",
            {bound.what: bound.held_max for bound in bounds},
            GaugeMetricFamily,
        )
        yield GaugeMetricFamily(
            "smartpubsub_stored_bytes", "Bytes in the storage.", engine.stored_bytes
        )
        yield GaugeMetricFamily(
            "smartpubsub_stored_bytes_max",
            "The limit of bytes in the storage.",
            engine.config.stored_bytes_max,
        )
        yield CounterMetricFamily(
            "smartpubsub_storage_commits", "Writes to the disk.", engine.host.counts.commits
        )


def _labelled(
    name: str,
    about: str,
    label: str,
    values: Mapping[str, int],
    kind: type[CounterMetricFamily] | type[GaugeMetricFamily] = CounterMetricFamily,
) -> Metric:
    family = kind(name, about, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family
