"""Known weaknesses of packages, from databases on this disk: nothing is asked of anybody."""
