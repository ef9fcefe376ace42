"""Which of the processes of a run this one is."""
