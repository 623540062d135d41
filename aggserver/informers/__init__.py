"""What controllers are made of: informers follow the objects of a kind, work queues hold the keys to look at."""
