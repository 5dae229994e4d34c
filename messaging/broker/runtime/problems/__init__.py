"""What is wrong in the topics of a broker: noticed by itself, and kept for whoever asks."""
