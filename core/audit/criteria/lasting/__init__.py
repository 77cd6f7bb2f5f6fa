"""The promises of lasting tables, one file each: signatures that stick, plain values, guards, cliques, blocks."""
