"""smartpubsub topic and its commands."""
