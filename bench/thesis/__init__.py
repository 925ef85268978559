"""What a thesis prints, as printed, beside ours; README.md says what of it does not hold."""
