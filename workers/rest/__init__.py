"""What workers do, over /api/v1: views and the objects that they show."""
