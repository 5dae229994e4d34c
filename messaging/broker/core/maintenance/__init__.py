"""What is removed on a schedule: unused topics and subscriptions, ledgers that nobody needs, and the order of the topics."""
