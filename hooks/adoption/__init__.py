"""Parts of `make adopt`: an old repository joins the family."""
