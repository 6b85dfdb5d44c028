"""The last stage: what was run and what came out, as one page that can be read without a network."""
