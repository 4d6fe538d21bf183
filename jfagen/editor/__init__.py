"""What editors need for `.sched` files: colours, brackets and snippets, and a language server."""
