"""The base of the errors that SmartPubSub raises on purpose."""


class SmartPubSubError(Exception):
    """The base class of every error that SmartPubSub raises on purpose; its text is for users."""

    is_printed = False
    """Whether a command has printed it as a document of its own."""
