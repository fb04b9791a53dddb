"""What a batch job of version 0.1 or 0.2 imports from its own ``job``, whose ``__path__`` is this package's."""
