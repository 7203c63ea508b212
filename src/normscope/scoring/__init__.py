"""What makes a number out of codes: higher is more anomalous, everywhere."""
