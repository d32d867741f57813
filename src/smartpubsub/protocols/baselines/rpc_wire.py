"""The old names of `baselines.messages`, until all imports are rewritten."""

from smartpubsub.kademlia.protobuf import WireError as WireError
from smartpubsub.protocols.baselines.messages import *  # noqa: F403
from smartpubsub.protocols.event_messages import *  # noqa: F403
