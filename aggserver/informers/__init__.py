"""What controllers are made of: informers follow the objects of a kind, work queues hold keys, and tasks are started again."""
