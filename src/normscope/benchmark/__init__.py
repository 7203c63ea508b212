"""Running a benchmark: one class normal, all others anomalies, one JSON line for each finished cell."""
