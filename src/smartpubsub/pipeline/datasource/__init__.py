"""A running node as a Spark source and sink: `format("smartpubsub")`."""
