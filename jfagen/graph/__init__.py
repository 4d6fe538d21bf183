"""Order as graphs: closures by bitsets, and the one door to networkx."""
