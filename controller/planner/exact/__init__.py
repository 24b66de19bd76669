"""Plan equal demands exactly, by edge colouring (Koenig): a regular Clos, whole or with failures."""
