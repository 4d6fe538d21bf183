"""jfagen: a compiler from schedules to TLX kernels for jagged flash attention."""

__version__ = "0.1.0"
