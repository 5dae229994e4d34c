"""The turns of the event loop: what each command costs, and who continues when."""
