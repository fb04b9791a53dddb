"""What a user does, as a user does it: one page, one test file, one repository. CONTRIBUTING.md has the rules."""
