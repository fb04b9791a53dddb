"""What a user does, as a user does it: one page, one test file, one repository. README.md has the rules."""
