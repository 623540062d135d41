"""The base of controllers: informers follow the objects of a kind, work queues hold keys, and failed tasks are restarted."""
