"""Ground floor: the types that cross between stages, and how they live on disk."""
