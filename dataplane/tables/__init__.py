"""One generation of tables: their arrays, how they are searched, compiled and packed."""
