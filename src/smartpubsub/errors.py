"""The base of the errors that SmartPubSub raises on purpose."""


class SmartPubSubError(Exception):
    """The base class of every error that SmartPubSub raises on purpose; its text is for users."""

    is_printed = False
    """Whether a command has printed it as a document of its own."""
    is_usage_error = False
    """Whether what the caller wrote is wrong, not what came of it; a command then ends with 2."""
