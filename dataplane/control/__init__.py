"""The control process of a gateway: supervision of the data process, slow path, controller session, pair."""
