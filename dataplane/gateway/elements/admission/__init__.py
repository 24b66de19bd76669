"""Which packets open a connection, and with which next hop, translation and room."""
