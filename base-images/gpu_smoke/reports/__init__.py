"""Reports of one walk: a plain dictionary, and its renderings as text, JSON, JUnit and HTML."""
