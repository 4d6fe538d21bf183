"""The passes: values in, a value out, nothing mutated, one file each."""
