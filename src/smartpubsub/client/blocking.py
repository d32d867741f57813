"""The methods of a node without `async`.

Each blocking method is made from the asynchronous one, so both have the same parameters.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterator
from datetime import datetime
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from smartpubsub.client.blocking_socket import run
from smartpubsub.client.client import Client
from smartpubsub.client.transport import Transport
from smartpubsub.node.api.events import Entry, Event
from smartpubsub.node.api.group import Group
from smartpubsub.node.api.handlers import AnyHandler, OnError
from smartpubsub.node.api.interface import NodeInterface
from smartpubsub.node.api.listing import Gaps
from smartpubsub.node.api.payloads import Serializer
from smartpubsub.node.api.subscription import EventStream, TopicStream
from smartpubsub.node.api.topic import Topic
from smartpubsub.predicates import Predicate

HANDLER_END_S_MAX = 5.0

P = ParamSpec("P")
T = TypeVar("T")
Inner = TypeVar("Inner")
Outer = TypeVar("Outer")


class Blocking(Generic[Inner]):
    """The base of objects whose asynchronous methods are made blocking."""

    def __init__(self, inner: Inner) -> None:
        self._inner = inner


class _Read(Generic[Inner, T]):
    """An attribute of the wrapped object."""

    def __init__(self, read: Callable[[Inner], T]) -> None:
        self._read = read

    @overload
    def __get__(self, instance: None, owner: type[Blocking[Inner]]) -> _Read[Inner, T]: ...

    @overload
    def __get__(self, instance: Blocking[Inner], owner: type[Blocking[Inner]]) -> T: ...

    def __get__(
        self, instance: Blocking[Inner] | None, owner: type[Blocking[Inner]]
    ) -> _Read[Inner, T] | T:
        return self if instance is None else self._read(instance._inner)


def _blocking(
    method: Callable[Concatenate[Inner, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Blocking[Inner], P], T]:
    """Make a method that blocks until the result is there."""

    @wraps(method)
    def call(self: Blocking[Inner], /, *arguments: P.args, **options: P.kwargs) -> T:
        result: T = run(getattr(self._inner, method.__name__)(*arguments, **options))
        return result

    return call


def _wrapped(
    method: Callable[Concatenate[Inner, P], T], kind: Callable[[T], Outer]
) -> Callable[Concatenate[Blocking[Inner], P], Outer]:
    """Make a method whose result has blocking methods."""

    @wraps(method)
    def call(self: Blocking[Inner], /, *arguments: P.args, **options: P.kwargs) -> Outer:
        return kind(getattr(self._inner, method.__name__)(*arguments, **options))

    return call


def _blocking_wrapped(
    method: Callable[Concatenate[Inner, P], Coroutine[Any, Any, T]], kind: Callable[[T], Outer]
) -> Callable[Concatenate[Blocking[Inner], P], Outer]:
    """Make a method that blocks, and whose result has blocking methods."""

    @wraps(method)
    def call(self: Blocking[Inner], /, *arguments: P.args, **options: P.kwargs) -> Outer:
        return kind(run(getattr(self._inner, method.__name__)(*arguments, **options)))

    return call


Stream = TypeVar("Stream", bound=EventStream)
Self = TypeVar("Self", bound="_Subscription[Any]")


class _Subscription(Blocking[Stream]):
    predicate = _Read[EventStream, Predicate](lambda stream: stream.predicate)
    number = _Read[EventStream, int | None](lambda stream: stream.number)
    was_there = _Read[EventStream, bool](lambda stream: stream.was_there)
    is_kept = _Read[EventStream, bool](lambda stream: stream.is_kept)
    dropped = _Read[EventStream, int](lambda stream: stream.dropped)
    recalled = _Read[EventStream, int](lambda stream: stream.recalled)
    is_whole = _Read[EventStream, bool](lambda stream: stream.is_whole)
    kept_since = _Read[EventStream, datetime | None](lambda stream: stream.kept_since)
    taken = _blocking(EventStream.taken)

    def __enter__(self: Self) -> Self:
        run(self._inner.open())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        run(self._inner.close(is_done=kind is None))


class BlockingSubscription(_Subscription[EventStream]):
    """A subscription that is read by iteration or by `get`."""

    get = _blocking(EventStream.get)
    next = _blocking(EventStream.next)

    def __iter__(self) -> Iterator[Event]:
        while (event := self.next()) is not None:
            yield event


class BlockingTopicSubscription(_Subscription[TopicStream]):
    """A subscription to a topic."""

    gaps = _Read[TopicStream, Gaps](lambda stream: stream.gaps)
    get = _blocking(TopicStream.get)
    next = _blocking(TopicStream.next)

    def __iter__(self) -> Iterator[Entry]:
        while (entry := self.next()) is not None:
            yield entry


class BlockingTopic(Blocking[Topic]):
    """A topic by its content id."""

    id = _Read[Topic, str](lambda topic: topic.id)
    show = _blocking(Topic.show)
    versions = _blocking(Topic.versions)
    update = _blocking(Topic.update)
    pin = _blocking(Topic.pin)
    unpin = _blocking(Topic.unpin)
    stock = _blocking(Topic.stock)
    publish = _blocking(Topic.publish)
    history = _blocking(Topic.history)
    blocks = _blocking(Topic.blocks)
    export = _blocking(Topic.export)
    subscribe = _wrapped(Topic.subscribe, BlockingTopicSubscription)
    keep = _wrapped(Topic.keep, BlockingTopicSubscription)


class BlockingGroup(Blocking[Group]):
    """A group: its predicate and its owner; None stands for the node itself."""

    predicate = _Read[Group, Predicate](lambda group: group.predicate)
    owner = _Read[Group, str | None](lambda group: group.owner)
    advertise = _blocking(Group.advertise)
    invite = _blocking(Group.invite)
    end = _blocking(Group.end)
    publish = _blocking(Group.publish)
    leave = _blocking(Group.leave)
    join = _wrapped(Group.join, BlockingSubscription)

    create = _blocking_wrapped(Group.create, lambda group: BlockingGroup(group))


class BlockingNode(Blocking[NodeInterface]):
    """A node with blocking methods, which several threads may call."""

    peer_id = _Read[NodeInterface, str](lambda node: node.peer_id)
    addresses = _Read[NodeInterface, list[str]](lambda node: node.addresses)
    handler_error_count = _Read[NodeInterface, int](lambda node: node.handler_error_count)
    peers = _blocking(NodeInterface.peers)
    metrics = _blocking(NodeInterface.metrics)
    explain = _blocking(NodeInterface.explain)
    subscribe = _wrapped(NodeInterface.subscribe, BlockingSubscription)
    unsubscribe = _blocking(NodeInterface.unsubscribe)
    subscriptions = _blocking(NodeInterface.subscriptions)
    publish = _blocking(NodeInterface.publish)
    event = _blocking(NodeInterface.event)
    event_facts = _blocking(NodeInterface.event_facts)
    why = _blocking(NodeInterface.why)
    group = _wrapped(NodeInterface.group, BlockingGroup)
    groups = _blocking(NodeInterface.groups)
    search_groups = _blocking(NodeInterface.search_groups)
    create_topic = _blocking_wrapped(NodeInterface.create_topic, BlockingTopic)
    topics = _blocking(NodeInterface.topics)
    topic = _wrapped(NodeInterface.topic, BlockingTopic)
    import_blocks = _blocking(NodeInterface.import_blocks)

    def on(
        self, predicate: Predicate | str, *, on_error: OnError | None = None
    ) -> Callable[[AnyHandler], AnyHandler]:
        """Call a function for every event that matches, in a thread; see `NodeInterface.on`."""
        return self._inner.on(predicate, on_error=on_error)


class Threads:
    """The threads in which the handlers of a blocking client run."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    def start(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a function that calls handlers."""
        thread = threading.Thread(
            target=lambda: run(function()), name="smartpubsub handler", daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def join(self) -> None:
        """Wait for a limited time until the handlers have returned."""
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(HANDLER_END_S_MAX)


class BlockingClient(BlockingNode):
    """The client of a running node, with blocking methods."""

    def __init__(self, transport: Transport, serializer: Serializer) -> None:
        self._client = Client(serializer)
        super().__init__(self._client)
        self._transport = transport
        self._handlers = Threads()

    def attach(self) -> None:
        """Begin to use the node."""
        run(self._client.attach(self._transport, self._handlers.start))

    def detach(self) -> None:
        """End all subscriptions and handlers."""
        run(self._client.detach())
        self._handlers.join()
