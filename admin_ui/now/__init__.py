"""What is wrong now, across everything that a person may see."""
