"""What commands do, on paths, and what they print; `rci.cli` reads their flags and calls these."""
