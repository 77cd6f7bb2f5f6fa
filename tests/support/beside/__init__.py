"""Other publishers beside settled groups: worlds counted exactly, random tables, and the rule with its wrong twins."""
