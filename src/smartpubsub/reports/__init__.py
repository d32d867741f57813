"""Reports: figures for people to look at."""
