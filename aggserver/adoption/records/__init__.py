"""What is known of moves: the record of each, the journal that keeps them, and the fence that servers of one store share."""
