"""A program for the type checker, which finds the mistakes that are marked, and no others."""

import smartpubsub
from smartpubsub import Event, Node, Overflow, Receipt, Topic, Wait


async def embedded(node: Node) -> Receipt:
    await node.publish("surf", wiat="all")  # mistake: call-arg
    await node.publish("surf", wait="some")  # mistake: arg-type
    await node.publish("surf", "text")  # mistake: arg-type
    node.subscribe("surf", overflow="nope")  # mistake: arg-type
    node.subscribe("surf", overflow="block", since="1h")
    Node(dta="folder")  # mistake: call-arg
    Node(listen=[])
    return await node.publish("surf", json={"price": 15}, wait=Wait.ALL)


async def attached() -> Event:
    async with smartpubsub.connect(data="folder") as node:
        await node.publish("surf", wiat="all")  # mistake: call-arg
        topic: Topic = await node.create_topic("news", linking="none")  # mistake: arg-type
        async with topic.subscribe(overflow=Overflow.BLOCK) as entries:
            entry = await anext(entries)
            assert entry.author
        async with node.subscribe("surf", overflow="nope") as events:  # mistake: arg-type
            return await anext(events)


def blocking() -> str:
    with smartpubsub.connect(dta="folder") as node:  # mistake: call-arg
        node.publish("surf", wiat="all")  # mistake: call-arg
        node.subscribe("surf", overflow="nope")  # mistake: arg-type
        node.topic("bafy").publish(b"", wait="never")  # mistake: arg-type
        with node.group("apple", "owner").join(overflow="error") as events:
            return events.get(timeout_s=1).payload  # mistake: return-value
