"""What Pulsarcast tells besides what all protocols do."""

from __future__ import annotations

from typing import NamedTuple

from smartpubsub.protocols.pulsarcast.blocks import Cid


class TopicStored(NamedTuple):
    """A topic, or a new version of one, can be found by everybody."""

    topic: Cid
