"""What usage runs left out, or could not know: rows that an administrator sees all of, and a tenant its own."""
