"""Random views of a batch, and pseudo-anomalies made from it."""
