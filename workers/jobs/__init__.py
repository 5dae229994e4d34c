"""Jobs: everything that runs long, under one name. Reads the rows and lists of what does it; has none of its own."""
