"""First stage: record episodes with behaviour policies that know nothing of safety."""

from rci.collection.recipe import collect

__all__ = ["collect"]
