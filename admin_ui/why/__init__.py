"""Why nothing arrives: the steps that a message passes, as the console shows them."""
