"""The page around every report: its layout, its style sheet and the parts that it is put together from."""
