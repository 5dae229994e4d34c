"""The pages of a topic's messages: `search` is what their form says, `rows` what they show of a message."""
