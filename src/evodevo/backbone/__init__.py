"""STAR: language-model backbones as genomes; one file per step from genome to trained model."""
