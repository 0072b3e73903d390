"""Search algorithms, one per file, all ask and tell."""
