"""Flow control: who waits when more is asked for than the server can do at once."""
