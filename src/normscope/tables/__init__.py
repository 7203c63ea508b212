"""Results of a benchmark as tables and comparisons, beside the figures that the paper prints."""
