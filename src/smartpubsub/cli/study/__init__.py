"""smartpubsub sim study and its commands."""
