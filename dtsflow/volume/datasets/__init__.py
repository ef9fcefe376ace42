"""The data sets that a run can read, and the classes a configuration names them by."""
