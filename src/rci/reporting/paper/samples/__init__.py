"""The paper's figures that are drawn from artefacts, not from rows: sampled drives, maps, trajectories."""
