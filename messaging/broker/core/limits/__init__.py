"""What may be done how often, and how many there may be: rates, quotas, and in which order those who share are served."""
