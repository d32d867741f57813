"""What a live node has counted, in the form that Prometheus reads.

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
        """Nothing, since a node that does not run has no metrics."""
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
        yield InfoMetricFamily("smartpubsub", "What this node is.", about)
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
            "smartpubsub_connections_pruned", "Connections closed to make room.", host.counts.pruned
        )

    def _messages(self) -> Iterator[Metric]:
        counts = self._engine.host.counts
        yield _labelled(
            "libp2p_network_bytes",
            "Bytes of messages, without what libp2p adds.",
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
            "What messages that came were about.",
            "kind",
            counts.received_kinds,
        )
        yield _labelled(
            "smartpubsub_sent_kinds",
            "What messages for others were about.",
            "kind",
            counts.sent_kinds,
        )
        yield _labelled(
            "libp2p_pubsub_rpc_drop",
            "Messages that were to be sent and were not.",
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
            "What peers have sent and was refused.",
            "reason",
            {**reasons, **self._engine.tally.refused},
        )
        failures = self._engine.failures
        yield _labelled(
            "smartpubsub_failures",
            "What was dropped because handling it raised an exception.",
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
            "Peers that have signed what proves a lie.",
            len(self._engine.convicted()),
        )
        yield GaugeMetricFamily(
            "smartpubsub_blamed_peers",
            "Peers that are blamed for lost events without proof.",
            len(core.kademlia.blame.states(self._engine.host.clock.now())),
        )
        yield CounterMetricFamily(
            "smartpubsub_refused_banned",
            "Connections and streams of banned peers that were refused.",
            counts.refused_banned,
        )
        yield CounterMetricFamily(
            "smartpubsub_delayed", "Messages that came too fast and had to wait.", counts.delayed
        )
        yield CounterMetricFamily(
            "smartpubsub_delayed_expensive",
            "Messages of peers that cost more than their share of the processor and had to wait.",
            counts.delayed_expensive,
        )
        yield GaugeMetricFamily(
            "smartpubsub_unfinished_bytes",
            "Bytes of messages that have not arrived as a whole.",
            self._engine.host.unfinished_bytes,
        )
        ledger = list(core.kademlia.ledger)
        yield _labelled(
            "smartpubsub_ledger_refused",
            "What was not kept for peers because it exceeds a limit.",
            "account",
            {account.name: account.refused for account in ledger},
        )
        yield _labelled(
            "smartpubsub_ledger_evicted",
            "What was kept for peers and has made room for others.",
            "account",
            {account.name: account.evicted for account in ledger},
        )
        yield _labelled(
            "smartpubsub_ledger_size",
            "What is kept for peers.",
            "account",
            {account.name: account.size for account in ledger},
            GaugeMetricFamily,
        )
        yield _labelled(
            "smartpubsub_ledger_size_max",
            "The limit of what is kept for peers.",
            "account",
            {account.name: account.size_max for account in ledger},
            GaugeMetricFamily,
        )
        yield _labelled(
            "smartpubsub_too_fast",
            "Of what came too fast, whether it had to wait or was refused.",
            "kind",
            counts.refused_kinds,
        )
        yield CounterMetricFamily(
            "smartpubsub_unanswered", "Questions that streams ended over.", counts.unanswered
        )

    def _events(self) -> Iterator[Metric]:
        counts, told = self._engine.host.counts, self._engine.told
        yield CounterMetricFamily(
            "libp2p_pubsub_messages_published",
            "Events of this node that the network has taken.",
            told["Published"],
        )
        yield CounterMetricFamily(
            "libp2p_pubsub_received_messages",
            "Copies of events that came for subscribers here or below.",
            sum(counts.received_kinds[kind] for kind in self._event_kinds),
        )
        yield CounterMetricFamily(
            "smartpubsub_events_delivered",
            "Events that were handed to subscriptions of this node.",
            told["Delivery"],
        )
        yield CounterMetricFamily(
            "smartpubsub_events_refused",
            "Events of this node that the network has refused.",
            told["Refused"],
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
            "How much is kept of what has limits.",
            "what",
            {bound.what: bound.held for bound in bounds},
            GaugeMetricFamily,
        )
        yield _labelled(
            "smartpubsub_held_max",
            "The most that is kept of it.",
            "what",
            {bound.what: bound.held_max for bound in bounds},
            GaugeMetricFamily,
        )
        yield GaugeMetricFamily(
            "smartpubsub_stored_bytes", "Bytes in the storage.", engine.stored_bytes
        )
        yield GaugeMetricFamily(
            "smartpubsub_stored_bytes_max",
            "The most that is stored.",
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
