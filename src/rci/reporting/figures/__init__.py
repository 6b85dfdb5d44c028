"""Drawings that several reports share, in one style."""
