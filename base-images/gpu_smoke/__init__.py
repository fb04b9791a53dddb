"""Walk the GPU call stack layer by layer and name the cause and the fix of the lowest fault."""

__version__ = "1.0.0"
