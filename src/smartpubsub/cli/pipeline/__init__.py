"""smartpubsub pipeline and its commands."""
