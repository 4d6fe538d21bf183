"""The editor's side: what a text under the cursor means, while it is being typed.

Everything here works on a text that may be half typed. `server` speaks the language server
protocol; the other modules return plain values, in offsets of the text.
"""
