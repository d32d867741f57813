"""The errors SmartPubSub raises on purpose."""


class SmartPubSubError(Exception):
    """The root of every error SmartPubSub raises on purpose; its text is fit to be shown."""
