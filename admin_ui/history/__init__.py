"""History in the console: charts of a span, compared with another time or another topic."""
