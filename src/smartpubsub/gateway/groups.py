"""Groups that the node owns or is a member of."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from smartpubsub.gateway.cloudevents import read_binary
from smartpubsub.gateway.events import ReceiptDocument, idempotency_key
from smartpubsub.gateway.operations import Call, Operation, Scope, json_response
from smartpubsub.node.api.choices import WaitName
from smartpubsub.node.api.node import Node


class NewGroup(msgspec.Struct, forbid_unknown_fields=True):
    """A group to create."""

    predicate: str
    advertised: bool = True
    private: bool = False


class GroupQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The predicate to search for."""

    predicate: str


class GroupPublishQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The group to publish in, and how."""

    group: str
    predicate: str | None = None
    wait: WaitName = "rendezvous"
    everywhere: bool = False


class GroupDocument(msgspec.Struct):
    """A group."""

    group: str
    owner: str
    is_own: bool
    members: int | None


class FoundGroupDocument(msgspec.Struct):
    """A group that a search has found."""

    group: str
    owner: str


class EndedGroupQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The group to end."""

    group: str


class GroupOperations:
    """Operations on groups."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def operations(self) -> list[Operation]:
        """All of them."""
        busy = (501, 503, 504)
        return [
            Operation(
                "list_groups",
                "GET",
                "/v1/groups",
                "The groups that this node owns or is a member of",
                Scope.READ,
                self._list,
                result=list[GroupDocument],
                problems=busy,
            ),
            Operation(
                "create_group",
                "POST",
                "/v1/groups",
                "Create a group of this node",
                Scope.ADMIN,
                self._create,
                body=NewGroup,
                result=FoundGroupDocument,
                status=201,
                problems=(403, 409, *busy),
            ),
            Operation(
                "end_group",
                "DELETE",
                "/v1/groups",
                "End a group of this node",
                Scope.ADMIN,
                self._end,
                query=EndedGroupQuery,
                status=204,
                problems=(403, *busy),
            ),
            Operation(
                "search_groups",
                "GET",
                "/v1/groups/search",
                "The advertised groups that have every attribute of a predicate",
                Scope.READ,
                self._search,
                query=GroupQuery,
                result=list[FoundGroupDocument],
                problems=busy,
            ),
            Operation(
                "publish_in_group",
                "POST",
                "/v1/groups/events",
                "Publish the body in a group of this node",
                Scope.PUBLISH,
                self._publish,
                query=GroupPublishQuery,
                body=bytes,
                result=ReceiptDocument,
                status=201,
                problems=(403, 409, 422, *busy),
            ),
        ]

    async def _list(self, _call: Call) -> Response:
        groups = [
            GroupDocument(
                str(known.predicate),
                known.owner,
                known.is_own,
                known.member_count if known.is_own else None,
            )
            for known in await self._node.groups()
        ]
        return json_response(groups)

    async def _create(self, call: Call) -> Response:
        wanted: NewGroup = call.body
        group = self._node.group(wanted.predicate)
        await group.create(advertised=wanted.advertised, private=wanted.private)
        owner = next(iter(self._node.addresses), self._node.peer_id)
        return json_response(FoundGroupDocument(str(group.predicate), owner), 201)

    async def _end(self, call: Call) -> Response:
        await self._node.group(call.query.group).end()
        return Response(status_code=204)

    async def _search(self, call: Call) -> Response:
        found = await self._node.search_groups(call.query.predicate)
        return json_response([FoundGroupDocument(str(g.predicate), g.owner) for g in found])

    async def _publish(self, call: Call) -> Response:
        query: GroupPublishQuery = call.query
        event = read_binary(call.request.headers, query.predicate, call.body)
        receipt = await self._node.group(query.group).publish(
            event.predicate,
            event.payload,
            wait=query.wait,
            everywhere=query.everywhere,
            key=idempotency_key(call),
        )
        return json_response(receipt.document(), 201)
