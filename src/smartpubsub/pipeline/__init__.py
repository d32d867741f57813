"""The data pipeline, on Spark: stages from DataFrame to DataFrame, with declared schemas."""
