"""Walk the GPU call stack layer by layer and name the cause and the fix of the lowest fault."""
