"""smartpubsub node and its commands."""
