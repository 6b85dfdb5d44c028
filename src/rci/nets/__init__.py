"""Ground floor: small networks for a CPU, and how they become plain arrays."""
