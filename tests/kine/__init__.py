"""kine, which k3s has in etcd's place: built once, and run over SQLite or PostgreSQL by the tests of `--storage etcd`."""
