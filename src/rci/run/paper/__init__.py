"""The experiments of the paper: from rows of evaluated policies to tables, figures and a page."""
