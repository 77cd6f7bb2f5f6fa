"""The mapping: from columns of a CSV file, or of a database, to what events have. docs/mapping.md has the language."""
