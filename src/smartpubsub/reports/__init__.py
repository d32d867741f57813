"""Reports: charts, and pages of charts and tables."""
