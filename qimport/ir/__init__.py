"""The intermediate representation of all dialects: types, graphs, text form, rewriting, interpretation."""
