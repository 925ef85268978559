"""What each component releases."""
