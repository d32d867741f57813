"""smartpubsub group and its commands."""
