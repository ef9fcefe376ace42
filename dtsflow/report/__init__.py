"""What a run tells afterwards: counters, bad samples, the report, comparisons."""
