"""smartpubsub bench and its commands."""
