"""The honest benchmark: one class normal, all others anomalies, one JSON line per finished cell."""
