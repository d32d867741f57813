"""The node itself: health, metrics, peers, and how a filter treats an event."""

from __future__ import annotations

from typing import Annotated

import msgspec
from starlette.responses import Response

from smartpubsub.gateway.operations import Call, Operation, Scope, json_response
from smartpubsub.gateway.problems import ProblemError
from smartpubsub.gateway.values import predicate_of
from smartpubsub.node.api.node import Node
from smartpubsub.predicates import Predicate, PredicateError, explain

METRICS_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Health(msgspec.Struct):
    """Whether the node works."""

    status: str


class NodeDocument(msgspec.Struct):
    """The node."""

    peer_id: str
    addresses: list[str]
    protocol: str
    peers: int


class NeighbourDocument(msgspec.Struct):
    """A peer, as the node sees it."""

    peer_id: str
    address: str
    is_served: bool


class DistrustedDocument(msgspec.Struct):
    """A peer that the node has convicted, or a peer or an address prefix that it blames."""

    who: str
    convicted_by: str | None
    """The contradicting statements that it has signed, if it is convicted."""
    blame: float
    """Its points of blame; they halve every hour."""
    reasons: dict[str, int]


class RouteQuery(msgspec.Struct, forbid_unknown_fields=True):
    """A filter or an event."""

    filter: str | None = None
    where: str | None = None


class RouteDocument(msgspec.Struct):
    """Where the events of an attribute go, as far as the node knows."""

    attribute: str
    is_own: bool
    """Whether the node itself is the rendezvous."""
    closest: list[str]
    """The known peers closest to the attribute: the next hop first, or the replicas."""


class WhyQuery(msgspec.Struct, forbid_unknown_fields=True):
    """An event and a subscription, by its number or its filter."""

    event: str
    subscription: Annotated[int, msgspec.Meta(ge=0)] | None = None
    filter: str | None = None


class WhyDocument(msgspec.Struct):
    """Why an event has arrived, or has not."""

    cause: str
    detail: str
    at_us: int | None
    hops: int | None


class ExplainQuery(msgspec.Struct, forbid_unknown_fields=True):
    """A filter and an event."""

    event: str
    filter: str | None = None
    where: str | None = None


class VerdictDocument(msgspec.Struct):
    """Whether the event meets one attribute of the filter."""

    name: str
    wanted: str
    got: str | None
    met: bool


class Explanation(msgspec.Struct):
    """Whether an event matches a filter, attribute by attribute."""

    matches: bool
    filter: str
    event: str
    attributes: list[VerdictDocument]


class NetworkOperations:
    """Operations on the node as a whole."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def operations(self) -> list[Operation]:
        """All of them."""
        return [
            Operation(
                "health",
                "GET",
                "/healthz",
                "Whether the process works",
                None,
                self._health,
                result=Health,
            ),
            Operation(
                "ready",
                "GET",
                "/readyz",
                "Whether the node takes requests",
                None,
                self._ready,
                result=Health,
                problems=(503,),
            ),
            Operation(
                "metrics",
                "GET",
                "/metrics",
                "Metrics in Prometheus' text format",
                Scope.READ,
                self._metrics,
                media_type=METRICS_TEXT,
            ),
            Operation(
                "show_node",
                "GET",
                "/v1/node",
                "The node's id, addresses and protocol",
                Scope.READ,
                self._show,
                result=NodeDocument,
            ),
            Operation(
                "list_peers",
                "GET",
                "/v1/peers",
                "The addresses of the peers that the node knows",
                Scope.READ,
                self._peers,
                result=list[str],
            ),
            Operation(
                "list_neighbours",
                "GET",
                "/v1/neighbours",
                "The peers that the node knows, and those that it sends events to",
                Scope.READ,
                self._neighbours,
                result=list[NeighbourDocument],
            ),
            Operation(
                "list_distrusted",
                "GET",
                "/v1/distrusted",
                "The peers that the node has convicted, or blames for lost events",
                Scope.READ,
                self._distrusted,
                result=list[DistrustedDocument],
            ),
            Operation(
                "list_routes",
                "GET",
                "/v1/routes",
                "The next hop towards the rendezvous of each attribute",
                Scope.READ,
                self._routes,
                query=RouteQuery,
                result=list[RouteDocument],
            ),
            Operation(
                "why",
                "GET",
                "/v1/why",
                "Why an event has arrived at a subscription of this node, or has not",
                Scope.READ,
                self._why,
                query=WhyQuery,
                result=WhyDocument,
                problems=(404,),
            ),
            Operation(
                "explain",
                "GET",
                "/v1/explain",
                "Whether an event matches a filter, and why",
                Scope.READ,
                self._explain,
                query=ExplainQuery,
                result=Explanation,
            ),
        ]

    async def _health(self, _call: Call) -> Response:
        return json_response(Health("ok"))

    async def _ready(self, _call: Call) -> Response:
        await self._node.peers()  # Raises an error unless the node runs.
        return json_response(Health("ok"))

    async def _metrics(self, _call: Call) -> Response:
        return Response(await self._node.metrics(), media_type=METRICS_TEXT)

    async def _show(self, _call: Call) -> Response:
        node = self._node
        return json_response(
            NodeDocument(
                node.peer_id, node.addresses, node.config.protocol, len(await node.peers())
            )
        )

    async def _peers(self, _call: Call) -> Response:
        return json_response(await self._node.peers())

    async def _neighbours(self, _call: Call) -> Response:
        documents = [
            NeighbourDocument(n.peer_id, n.address, n.is_served) for n in self._node.neighbours()
        ]
        return json_response(documents)

    async def _distrusted(self, _call: Call) -> Response:
        found = self._node.distrusted()
        return json_response([DistrustedDocument(**each._asdict()) for each in found])

    async def _routes(self, call: Call) -> Response:
        wanted = predicate_of(call.query.filter, call.query.where, self._node)
        documents = [
            RouteDocument(route.attribute, route.is_own, [*route.closest])
            for route in self._node.routes(wanted)
        ]
        return json_response(documents)

    async def _why(self, call: Call) -> Response:
        query: WhyQuery = call.query
        found = await self._node.why(
            query.event, subscription=query.subscription, filter=query.filter
        )
        return json_response(found.document())

    async def _explain(self, call: Call) -> Response:
        wanted = predicate_of(call.query.filter, call.query.where, self._node)
        try:
            event = Predicate.parse(call.query.event, self._node.config.attribute_count_max)
        except PredicateError as error:
            raise ProblemError(400, f"event: {error}") from None
        verdicts = explain(wanted, event)
        return json_response(
            Explanation(
                all(verdict.met for verdict in verdicts),
                str(wanted),
                str(event),
                [VerdictDocument(**verdict._asdict()) for verdict in verdicts],
            )
        )
