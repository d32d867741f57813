"""The old names of `baselines.messages`, until all imports are rewritten."""

from smartpubsub.protocols.baselines.messages import *  # noqa: F403
