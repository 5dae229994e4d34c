"""How values are written in each language, where templates write them without a filter of the console."""
