"""Struct columns: their types, DDL, tables of nodes, and the compiled loops that fill them."""
