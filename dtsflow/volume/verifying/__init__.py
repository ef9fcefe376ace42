"""What is wrong with a volume: every part checked, whatever the others are like."""
