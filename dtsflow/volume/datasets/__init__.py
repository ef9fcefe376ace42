"""The data sets that a run can read, and what a configuration names them by."""
