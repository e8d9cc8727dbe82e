"""The intermediate representation shared by all dialects: types, graphs, text form, rewriting, interpretation."""
