"""What is known of moves: the record of each, the journal of all records, and the fence between servers that share a store."""
